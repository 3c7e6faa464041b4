package serving_test

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/serving"
)

// runtimes are some of a cluster, with the formats and priorities of KServe's.
func runtimes() []serving.Runtime {
	return []serving.Runtime{
		{Name: "kserve-tensorflow-serving", Cluster: true, Formats: []serving.Format{{"tensorflow", "1", true, 2}, {"tensorflow", "2", true, 2}}, Protocols: []string{"v1", "grpc-v1"}},
		{Name: "kserve-tritonserver", Cluster: true, Formats: []serving.Format{{"tensorflow", "2", true, 1}, {"onnx", "1", true, 1}, {"pytorch", "1", false, 0}}, Protocols: []string{"v2", "grpc-v2"}},
		{Name: "kserve-sklearnserver", Cluster: true, Formats: []serving.Format{{"sklearn", "1", true, 1}}, Protocols: []string{"v1", "v2"}},
		{Name: "kserve-mlserver", Cluster: true, Formats: []serving.Format{{"sklearn", "1", true, 2}}, Protocols: []string{"v2"}},
		{Name: "off", Cluster: true, Disabled: true, Formats: []serving.Format{{"sklearn", "1", true, 9}}},
	}
}

func TestChoose(t *testing.T) {
	for _, tt := range []struct {
		name  string
		model serving.Model
		more  []serving.Runtime
		want  string // the runtime, or a part of the sentence
	}{
		{"a format has one runtime for the default protocol", serving.Model{Format: "tensorflow"}, nil, "kserve-tensorflow-serving"},
		{"another protocol has another runtime", serving.Model{Format: "tensorflow", Protocol: "v2"}, nil, "kserve-tritonserver"},
		{"of two that fit the one with the higher priority is chosen", serving.Model{Format: "sklearn", Protocol: "v2"}, nil, "kserve-mlserver"},
		{"a disabled one is not chosen, whatever its priority", serving.Model{Format: "sklearn"}, nil, "kserve-sklearnserver"},
		{"one of the namespace comes first", serving.Model{Format: "sklearn"}, []serving.Runtime{{Name: "own", Formats: []serving.Format{{"sklearn", "1", true, 0}}}}, "own"},
		{
			"of two equal ones the newest is chosen",
			serving.Model{Format: "x"},
			[]serving.Runtime{{Name: "a", Formats: []serving.Format{{"x", "", true, 0}}, Created: time.Unix(1, 0)}, {Name: "b", Formats: []serving.Format{{"x", "", true, 0}}, Created: time.Unix(2, 0)}},
			"b",
		},
		{"a named one is taken also for formats that it is not chosen for", serving.Model{Format: "pytorch", Runtime: "kserve-tritonserver", Protocol: "v2"}, nil, "kserve-tritonserver"},
		{"a format that none serves with v1 is served with what there is", serving.Model{Format: "onnx"}, nil, "kserve-tritonserver"},
		{"a misspelled format leads to the nearest", serving.Model{Format: "tensorflw"}, nil, "no runtime serves format tensorflw; did you mean tensorflow?"},
		{"an unknown format leads to a list of all", serving.Model{Format: "zebra"}, nil, "formats with a runtime are onnx, sklearn, tensorflow"},
		{"an unknown version leads to the versions", serving.Model{Format: "tensorflow", Version: "9"}, nil, "no runtime serves format tensorflow 9; there is one for version 1 or 2"},
		{"an unknown protocol leads to the protocols", serving.Model{Format: "onnx", Protocol: "v1"}, nil, "with protocol v1; set protocolVersion to grpc-v2 or v2"},
		{"a format that needs its runtime named says so", serving.Model{Format: "pytorch", Protocol: "v2"}, nil, "unless it is named; set runtime to kserve-tritonserver"},
		{"a misspelled runtime leads to the nearest", serving.Model{Format: "onnx", Runtime: "kserve-tritonsrver"}, nil, "did you mean kserve-tritonserver?"},
		{"a named one that is disabled is refused", serving.Model{Format: "sklearn", Runtime: "off"}, nil, "runtime off is disabled"},
		{"a named one of another format is refused", serving.Model{Format: "onnx", Runtime: "kserve-sklearnserver"}, nil, "does not serve format onnx; it serves sklearn"},
		{"a named one of another protocol is refused", serving.Model{Format: "onnx", Protocol: "v1", Runtime: "kserve-tritonserver"}, nil, "does not speak protocol v1; it speaks grpc-v2 or v2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, fault := serving.Choose(&tt.model, append(runtimes(), tt.more...))
			switch {
			case fault != nil && !strings.Contains(fault.Message, tt.want):
				t.Errorf("refused with %q, want %q", fault.Message, tt.want)
			case fault == nil && r.Name != tt.want:
				t.Errorf("chose %s, want %s", r.Name, tt.want)
			}
		})
	}
	if _, fault := serving.Choose(&serving.Model{Format: "onnx"}, nil); fault == nil || !strings.Contains(fault.Message, "no runtimes") {
		t.Errorf("without runtimes: %v", fault)
	}
}
