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
	"berth.dev/berth/api/kserve"
	"berth.dev/berth/cli/term"
	rules "berth.dev/berth/core/serving"
	objects "berth.dev/berth/kube/serving"
)

// The states of a revision.
const (
	revisionCurrent = "Current"    // the newest, of which all replicas once were
	revisionCanary  = "Canary"     // the newest, which gets a share of the requests beside the last that rolled out
	revisionNew     = "New"        // the newest, of which not all replicas have been yet
	revisionOld     = "RolledOut"  // all replicas once were of it
	revisionNever   = "NeverReady" // not all replicas ever were of it
)

// revision is one that is kept of a service.
type revision struct {
	Number    int64  `json:"number"`
	Revision  string `json:"revision"` // as pods have it
	Name      string `json:"name"`     // of its ControllerRevision
	State     string `json:"state"`    // Current, Canary, New, RolledOut, or NeverReady
	Replicas  int    `json:"replicas"` // that there are of it
	Model     string `json:"model"`    // or the image of containers of the user's own
	RolledOut string `json:"rolledOut,omitempty"`
	Created   string `json:"created"`           // RFC 3339, as is RolledOut
	Traffic   *share `json:"traffic,omitempty"` // of two revisions between which requests are divided
}

// share is what a revision gets of the requests, and what came of them in the last five minutes.
type share struct {
	Percent int    `json:"percent"`
	Answers int    `json:"answers"` // with errors
	Errors  int    `json:"errors"`
	P95     string `json:"p95,omitempty"` // how long 19 of 20 answers without an error took at most
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

// list is what is shown of them, of a service whose requests are divided so; none is that they are not.
func (h *history) list(traffic []kserve.Traffic) []revision {
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
		for _, t := range traffic {
			if t.RevisionName == v.Name {
				r.Traffic = &share{t.Percent, t.Answers, t.Errors, t.P95}
				if t.LatestRevision {
					r.State = revisionCanary
				}
			}
		}
		if !v.RolledOut.IsZero() {
			r.RolledOut = v.RolledOut.UTC().Format(time.RFC3339)
		}
		out = append(out, r)
	}
	return out
}

// cells are those of a table.
func (s *share) cells() []string {
	if s == nil {
		return []string{"-", "-", "-", "-"}
	}
	return []string{fmt.Sprintf("%d%%", s.Percent), fmt.Sprint(s.Answers), fmt.Sprint(s.Errors), cmp.Or(s.P95, "-")}
}

// short is a revision as tables show it.
func short(revision string) string { return cmp.Or(revision[:min(8, len(revision))], "-") }

// printRevisions writes the table of revisions.
func (d *detail) printRevisions(w io.Writer, screen term.Screen, bare bool, now time.Time) error {
	if len(d.Revisions) == 0 {
		return nil
	}
	divided := slices.ContainsFunc(d.Revisions, func(r revision) bool { return r.Traffic != nil })
	t := &term.Table{Head: []string{"NUMBER", "REVISION", "STATE", "REPLICAS", "AGE", "MODEL"}, Gap: 2, Spare: []string{"AGE", "REPLICAS", "REVISION"}}
	if divided {
		t.Head = slices.Insert(t.Head, 3, "SHARE", "REQUESTS", "ERRORS", "P95")
		t.Spare = append(t.Spare, "P95")
	}
	for _, r := range d.Revisions {
		cells := []string{fmt.Sprint(r.Number), short(r.Revision), r.State, fmt.Sprint(r.Replicas), age(now, r.Created), cmp.Or(r.Model, "-")}
		if divided {
			cells = slices.Insert(cells, 3, r.Traffic.cells()...)
		}
		t.Add(cells...)
	}
	term.PrintLine(w, "")
	return t.Write(w, screen, bare)
}
