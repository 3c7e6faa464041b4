package cli_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// scaleFile is how many objects the file has that `berth can` and `berth lint` read on the large cluster.
const scaleFile = 100

// scaleManifests are Jobs, Deployments, and Pods in one file, as a team's folder may have them: each has its image and its setting, and there are 16
// kinds of requests, as among the pods that wait. distinct is that no two ask for the same.
func scaleManifests(distinct bool) string {
	var b strings.Builder
	for i := range scaleFile {
		memory := 32 * (1 + i%8)
		if distinct {
			memory += i
		}
		container := fmt.Sprintf("{name: main, image: 'registry.example.com/train:%d', command: [python, -m, train], env: [{name: SEED, value: '%d'}], resources: {limits: {nvidia.com/gpu: %d, cpu: %d, memory: %dGi}}}",
			i, i, 1+i%8, 8*(1+i%8)+i/8%2, memory)
		switch i % 4 {
		case 0:
			fmt.Fprintf(&b, "---\napiVersion: apps/v1\nkind: Deployment\nmetadata: {name: serve-%d}\nspec:\n  replicas: 2\n  selector: {matchLabels: {app: serve-%d}}\n  strategy: {type: Recreate}\n"+
				"  template:\n    metadata: {labels: {app: serve-%d}}\n    spec:\n      containers:\n      - %s\n", i, i, i, container)
		case 1:
			fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Pod\nmetadata: {name: try-%d}\nspec:\n  containers:\n  - %s\n", i, container)
		default:
			fmt.Fprintf(&b, "---\napiVersion: batch/v1\nkind: Job\nmetadata: {name: train-%d}\nspec:\n  parallelism: 2\n  template:\n    spec:\n      restartPolicy: Never\n      containers:\n      - %s\n", i, container)
		}
	}
	return b.String()
}

// scaleDryRun answers what `berth can` asks of an API server: which kinds there are, and what it would make of an object, which is the object itself.
func scaleDryRun(mux *http.ServeMux) {
	for at, kinds := range map[string][]metav1.APIResource{
		"/api/v1":        {{Name: "pods", Kind: "Pod", Namespaced: true}},
		"/apis/apps/v1":  {{Name: "deployments", Kind: "Deployment", Namespaced: true}},
		"/apis/batch/v1": {{Name: "jobs", Kind: "Job", Namespaced: true}},
	} {
		version := strings.TrimPrefix(strings.TrimPrefix(at, "/apis/"), "/api/")
		mux.HandleFunc(at, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: version, APIResources: kinds})
		})
		for _, k := range kinds {
			mux.HandleFunc("POST "+at+"/namespaces/{namespace}/"+k.Name, func(w http.ResponseWriter, r *http.Request) {
				var o map[string]any
				if r.URL.Query().Get("dryRun") == "" || json.NewDecoder(r.Body).Decode(&o) != nil {
					http.Error(w, "only a dry run of JSON", http.StatusBadRequest)
					return
				}
				o["metadata"].(map[string]any)["uid"] = "new"
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(http.StatusCreated)
				_ = json.NewEncoder(w).Encode(o)
			})
		}
	}
}
