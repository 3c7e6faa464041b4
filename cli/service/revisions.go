package service

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/cli/term"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// The states of a revision.
const (
	revisionCurrent = "Current"    // the newest, of which all replicas once were
	revisionNew     = "New"        // the newest, of which not all replicas have been yet
	revisionOld     = "RolledOut"  // all replicas once were of it
	revisionNever   = "NeverReady" // not all replicas ever were of it
)

// revision is one that is kept of a service.
type revision struct {
	Number    int64  `json:"number"`
	Revision  string `json:"revision"` // as pods have it
	Name      string `json:"name"`     // of its ControllerRevision
	State     string `json:"state"`    // Current, New, RolledOut, or NeverReady
	Replicas  int    `json:"replicas"` // that there are of it
	Model     string `json:"model"`    // or the image of containers of the user's own
	RolledOut string `json:"rolledOut,omitempty"`
	Created   string `json:"created"` // RFC 3339, as is RolledOut
}

// history are the revisions that are kept of a service, the newest first.
type history struct {
	objects []*appsv1.ControllerRevision
	values  []rules.Revision
}

// revisions reads what is kept of a service that has pods.
func (s *services) revisions(ctx context.Context, o *service, pods []*corev1.Pod) (*history, error) {
	out := &history{}
	list, err := s.AppsV1().ControllerRevisions(o.Namespace).List(ctx, metav1.ListOptions{LabelSelector: api.LabelInferenceService + "=" + o.Name})
	if err != nil {
		return out, err
	}
	for i := range list.Items {
		if one := &list.Items[i]; metav1.IsControlledBy(one, o) {
			out.objects = append(out.objects, one)
		}
	}
	slices.SortFunc(out.objects, func(a, b *appsv1.ControllerRevision) int {
		return cmp.Or(cmp.Compare(b.Revision, a.Revision), cmp.Compare(a.Name, b.Name))
	})
	for _, one := range out.objects {
		r := objects.RevisionOf(one)
		for _, p := range pods {
			if p.DeletionTimestamp == nil && p.Annotations[api.AnnotationServingSpec] == one.Annotations[api.AnnotationServingSpec] {
				r.Pods++
			}
		}
		out.values = append(out.values, r)
	}
	return out, nil
}

// list is what is shown of them.
func (h *history) list() []revision {
	out := []revision{}
	last := rules.RolledOut(h.values)
	for i, one := range h.objects {
		v := &h.values[i]
		r := revision{
			Number: v.Number, Name: v.Name, Revision: one.Annotations[api.AnnotationServingSpec], Replicas: v.Pods, State: revisionNever,
			Model: objects.Recorded(one).Source(), Created: one.CreationTimestamp.UTC().Format(time.RFC3339),
		}
		switch {
		case i == 0 && len(last) > 0 && last[0].Name == v.Name:
			r.State = revisionCurrent
		case i == 0:
			r.State = revisionNew
		case !v.RolledOut.IsZero():
			r.State = revisionOld
		}
		if !v.RolledOut.IsZero() {
			r.RolledOut = v.RolledOut.UTC().Format(time.RFC3339)
		}
		out = append(out, r)
	}
	return out
}

// short is a revision as tables show it.
func short(revision string) string { return cmp.Or(revision[:min(8, len(revision))], "-") }

// printRevisions writes the table of revisions.
func (d *detail) printRevisions(w io.Writer, screen term.Screen, bare bool, now time.Time) error {
	if len(d.Revisions) == 0 {
		return nil
	}
	t := &term.Table{Head: []string{"NUMBER", "REVISION", "STATE", "REPLICAS", "AGE", "MODEL"}, Gap: 2, Spare: []string{"AGE", "REPLICAS", "REVISION"}}
	for _, r := range d.Revisions {
		t.Add(fmt.Sprint(r.Number), short(r.Revision), r.State, fmt.Sprint(r.Replicas), age(now, r.Created), cmp.Or(r.Model, "-"))
	}
	term.PrintLine(w, "")
	return t.Write(w, screen, bare)
}
