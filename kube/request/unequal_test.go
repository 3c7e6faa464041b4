package request_test

import (
	"encoding/json"
	"testing"

	"berth.dev/berth/kube/request"
)

func TestRequestsOfGPUsUnlikeLimitsAreFoundInAnyKind(t *testing.T) {
	for _, tt := range []struct {
		name, object string
		want         bool
	}{
		{"a limit alone", `{"spec":{"template":{"spec":{"containers":[{"resources":{"limits":{"nvidia.com/gpu":1}}}]}}}}`, false},
		{"equal in two spellings", `{"containers":[{"resources":{"limits":{"nvidia.com/gpu":"2"},"requests":{"nvidia.com/gpu":2}}}]}`, false},
		{"less than the limit", `{"containers":[{"resources":{"limits":{"nvidia.com/gpu":2},"requests":{"nvidia.com/gpu":1}}}]}`, true},
		{"no limit", `{"containers":[{"resources":{"requests":{"nvidia.com/gpu":1}}}]}`, true},
		{"a MIG device", `{"initContainers":[{"resources":{"requests":{"nvidia.com/mig-1g.5gb":1}}}]}`, true},
		{"CPU may be overcommitted", `{"containers":[{"resources":{"limits":{"cpu":2},"requests":{"cpu":1,"memory":"1Gi"}}}]}`, false},
		{"the nodes of a TrainJob", `{"spec":{"trainer":{"resourcesPerNode":{"limits":{"nvidia.com/gpu":2},"requests":{"nvidia.com/gpu":"1"}}}}}`, true},
		{"one type of replicas", `{"spec":{"tfReplicaSpecs":{"PS":{"template":{}},"Worker":{"template":{"spec":{"containers":[{},{"resources":{"requests":{"nvidia.com/gpu":1}}}]}}}}}}`, true},
		{"what is not an amount", `{"containers":[{"resources":{"requests":{"nvidia.com/gpu":"many"}}}]}`, false},
		{"no mapping", `{"resources":[1],"containers":7}`, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var object map[string]any
			if err := json.Unmarshal([]byte(tt.object), &object); err != nil {
				t.Fatal(err)
			}
			if got := request.UnequalIn(object); got != tt.want {
				t.Errorf("got %t, want %t", got, tt.want)
			}
		})
	}
}
