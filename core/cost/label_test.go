package cost

import "testing"

func TestLabels(t *testing.T) {
	namespace := map[string]string{"team": "vision", "kubernetes.io/metadata.name": "v", "cost-center": "12"}
	pod := map[string]string{
		"team": "robots", "app.kubernetes.io/part-of": "arm", "pod-template-hash": "5d", "batch.kubernetes.io/job-name": "j", "training.kubeflow.org/replica-index": "0",
		"example.com/project": "x", "berth.dev/queue": "q", "empty": "",
	}
	labels := NewLabels(namespace, pod)
	if want := "app.kubernetes.io/part-of=arm,cost-center=12,empty=,example.com/project=x,team=robots"; labels != want {
		t.Errorf("kept are %s, want %s", labels, want)
	}
	for key, want := range map[string]string{"team": "robots", "cost-center": "12", "empty": "", "tea": "", "example.com/project": "x"} {
		if got := labelOf(labels, key); got != want {
			t.Errorf("label %s is %q, want %q", key, got, want)
		}
	}
	f := lab()
	for uid, team := range map[string]string{"p1": "team=red", "p2": "team=blue,x=y"} {
		p := f.Pods[uid]
		p.Labels = team
		f.Pods[uid] = p
	}
	if got, want := rowText(Sum(Account(f, at(0), at(120)), "label:team")), "red=2h $1.000000, blue=0.5h $0.250000, =1h unpriced, idle=1h $0.500000, cordoned=0.5h $0.250000"; got != want {
		t.Errorf("by team is charged %s, want %s", got, want)
	}
	for by, wrong := range map[By]bool{"label:team": false, "label:": true, "label:a=b": true, "label:example.com/x": false, "labels:x": true} {
		q := Question{From: at(0), To: at(1), By: by}
		if got := q.Check(at(1)); (got != "") != wrong {
			t.Errorf("a question by %s gets %q", by, got)
		}
	}
}
