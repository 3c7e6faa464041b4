// Package idle reads from annotations after how long without use workloads give up their GPUs.
package idle

import (
	"berth.dev/berth/api"
	"berth.dev/berth/core/idle"
)

// NotebookWords are what the annotations of a Notebook, a pod of a JupyterHub, or their Namespace say.
func NotebookWords(a map[string]string) idle.Words {
	w := idle.Words{
		After: a[api.AnnotationNotebookIdleAfter], Warning: a[api.AnnotationNotebookIdleWarning], By: a[api.AnnotationNotebookIdleBy],
		MaxSession: a[api.AnnotationMaxSession], GiveWay: a[api.AnnotationNotebookGivesWayAfter],
	}
	if w.After == "" {
		w.After = a[api.AnnotationIdleAfter]
	}
	return w
}

// Words are what the annotations of another workload or its Namespace say.
func Words(a map[string]string) idle.Words { return idle.Words{After: a[api.AnnotationIdleAfter]} }

// Of returns the policy of a workload that is not a notebook, by the annotations of its Namespace and by its own. problems are
// sentences about words that cannot be read, or advice; with a word that cannot be read it is never idle.
func Of(namespace, own map[string]string) (policy idle.Policy, problems []string) {
	policy = idle.Off()
	for _, a := range []struct {
		of    string
		words idle.Words
	}{{"annotations of its namespace: ", Words(namespace)}, {"annotations: ", Words(own)}} {
		var bad []string
		policy, bad = policy.With(a.words)
		for _, text := range bad {
			problems = append(problems, a.of+text)
		}
	}
	return policy, problems
}
