package cli

import (
	"context"
	"strings"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/api/kubeflow"
	reasons "berth.dev/berth/core/explain"
	"berth.dev/berth/kube/explain"
)

// code is the code of why a notebook is not ready, from its state and its pod.
func (n *notebooks) code(ctx context.Context, nb *kubeflow.Notebook, pod *v1.Pod) reasons.Code {
	f := reasons.Facts{Namespace: nb.Namespace, Name: nb.Name}
	if pod != nil {
		s := explain.Situation{Pod: pod}
		events, err := n.explainer().eventsOf(ctx, []v1.ObjectReference{{Name: pod.Name, Kind: "Pod", UID: pod.UID}})
		if err != nil {
			events = nil // its state says what is known then
		}
		f = s.Facts(events, n.o.now())
	}
	if strings.Contains(cause(nb), "does not belong to this notebook") {
		f.Taken = cause(nb)
	}
	if s := state(nb); s == reasons.Refused && pod == nil {
		for _, text := range refusalTexts(ctx, n, nb) {
			f.Refusal = &reasons.Refusal{Message: text}
		}
	}
	return f.Code(&reasons.Result{Reason: state(nb)})
}

// refusalTexts are what the API server said when the notebook's pod was to be created.
func refusalTexts(ctx context.Context, n *notebooks, nb *kubeflow.Notebook) []string {
	newest, err := n.explainer().refusedPod(ctx, "statefulset", nb.Name)
	if err != nil || newest == nil {
		return nil
	}
	return []string{newest.Message}
}
