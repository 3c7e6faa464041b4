package why

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/notebook"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
)

// codeOf is the code of why a notebook is not ready, from its state and its pod.
func codeOf(ctx context.Context, n *notebook.Notebooks, nb *kubeflow.Notebook, pod *v1.Pod) reasons.Code {
	f := reasons.Facts{Namespace: nb.Namespace, Name: nb.Name}
	if pod != nil {
		s := explain.Situation{Pod: pod}
		events, err := newExplainer(n).eventsOf(ctx, []v1.ObjectReference{{Name: pod.Name, Kind: "Pod", UID: pod.UID}})
		if err != nil {
			events = nil // its state says what is known then
		}
		f = s.Facts(events, n.Options.Time())
	}
	if strings.Contains(notebook.Cause(nb), "does not belong to this notebook") {
		f.Taken = notebook.Cause(nb)
	}
	if s := notebook.State(nb); s == reasons.Refused && pod == nil {
		for _, text := range refusalTexts(ctx, n, nb) {
			f.Refusal = &reasons.Refusal{Message: text}
		}
	}
	return f.Code(&reasons.Result{Reason: notebook.State(nb)})
}

// refusalTexts are what the API server said when the notebook's pod was to be created.
func refusalTexts(ctx context.Context, n *notebook.Notebooks, nb *kubeflow.Notebook) []string {
	newest, err := newExplainer(n).refusedPod(ctx, "statefulset", nb.Name)
	if err != nil || newest == nil {
		return nil
	}
	return []string{newest.Message}
}
