package idle_test

import (
	"strings"
	"testing"
	"time"

	rules "berth.dev/berth/core/idle"
	"berth.dev/berth/kube/idle"
)

func TestPolicyOfAWorkload(t *testing.T) {
	const after, notebook = "berth.dev/idle-after", "berth.dev/notebook-idle-after"
	type notes = map[string]string
	for _, tt := range []struct {
		name           string
		namespace, own notes
		after          time.Duration // 0 is never
		says           string
	}{
		{name: "nothing is never idle"},
		{name: "its namespace's", namespace: notes{after: "8h"}, after: 8 * time.Hour},
		{name: "its own goes first", namespace: notes{after: "8h"}, own: notes{after: "2d"}, after: 48 * time.Hour},
		{name: "it may opt out", namespace: notes{after: "8h"}, own: notes{after: "never"}},
		{name: "that of notebooks is not for it", namespace: notes{notebook: "8h"}},
		{name: "what cannot be read is never", namespace: notes{after: "8h"}, own: notes{after: "soon"}, says: `annotations: "soon" is not a time without activity`},
		{name: "of its namespace too", namespace: notes{after: "1 day"}, says: "annotations of its namespace: "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, problems := idle.Of(tt.namespace, tt.own)
			if p.Never != (tt.after == 0) || !p.Never && p.After != tt.after {
				t.Errorf("never %v, after %s, want %s", p.Never, p.After, tt.after)
			}
			if all := strings.Join(problems, "; "); !strings.Contains(all, tt.says) || (all == "") != (tt.says == "") {
				t.Errorf("problems %q, want %q", all, tt.says)
			}
		})
	}
}

func TestWordsOfANotebook(t *testing.T) {
	if w := idle.NotebookWords(map[string]string{"berth.dev/idle-after": "8h"}); w.After != "8h" {
		t.Errorf("%+v", w)
	}
	w := idle.NotebookWords(map[string]string{"berth.dev/idle-after": "8h", "berth.dev/notebook-idle-after": "1h", "berth.dev/max-session": "2d"})
	if w != (rules.Words{After: "1h", MaxSession: "2d"}) {
		t.Errorf("%+v", w)
	}
}
