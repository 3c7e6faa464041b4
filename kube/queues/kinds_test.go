package queues_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"berth.dev/berth/core/quota"
	"berth.dev/berth/kube/queues"
)

// TestSetKinds has gangs whose pods may use different GPUs.
func TestSetKinds(t *testing.T) {
	for _, tt := range []struct{ name, pods, kinds, own string }{
		{"pods alike choose together", "a+b a+b", "a b", "- -"},
		{"pods alike with one kind", "a a", "a", "- -"},
		{"a pod with one kind counts as of it, and the others choose", "a b+c b+c", "b c", "a - -"},
		{"pods with one kind each", "a b", "", "a b"},
		{"pods choose between what all of them may use", "a+b b+c", "b", "- -"},
		{"else between what one may use", "a+b c+d", "a b c d", "- -"},
		{"pods without GPUs have no say", "a+b none a+b none", "a b", "- none - none"},
		{"nor among pods that differ", "a+b none b+c", "b", "- none -"},
		{"nothing is known", "", "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &quota.Workload{}
			var kinds [][]quota.Kind
			for pod := range strings.FieldsSeq(tt.pods) {
				if pod == "none" {
					w.Pods, kinds = append(w.Pods, quota.Pod{ID: "p"}), append(kinds, nil)
					continue
				}
				w.Pods = append(w.Pods, quota.Pod{ID: "p", Pieces: []quota.Piece{{Devices: 1, Parts: quota.Whole}}})
				var of []quota.Kind
				for name := range strings.SplitSeq(pod, "+") {
					of = append(of, quota.Kind{Product: name})
				}
				kinds = append(kinds, of)
			}
			queues.SetKinds(w, kinds)
			var got, own []string
			for _, k := range w.Kinds {
				got = append(got, k.Product)
			}
			for i := range w.Pods {
				switch {
				case len(w.Pods[i].Pieces) == 0:
					own = append(own, "none")
				case queues.Chooses(&w.Pods[i]):
					own = append(own, "-")
				default:
					own = append(own, w.Pods[i].Pieces[0].Product)
				}
			}
			if !slices.Equal(got, strings.Fields(tt.kinds)) || fmt.Sprint(own) != fmt.Sprint(strings.Fields(tt.own)) {
				t.Errorf("kinds %q, of the pods %q; want %q and %q", got, own, tt.kinds, tt.own)
			}
		})
	}
}
