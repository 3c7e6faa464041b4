package queueimport_test

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"

	"berth.dev/berth/kube/queueimport"
	"berth.dev/berth/kube/queues"
)

var update = flag.Bool("update", false, "rewrite golden files")

// parse reads objects, also of lists.
func parse(t *testing.T, text string) []*unstructured.Unstructured {
	t.Helper()
	var out []*unstructured.Unstructured
	d := yaml.NewYAMLOrJSONDecoder(strings.NewReader(text), 4096)
	for {
		u := &unstructured.Unstructured{}
		if err := d.Decode(&u.Object); errors.Is(err, io.EOF) {
			return out
		} else if err != nil {
			t.Fatal(err)
		}
		if !u.IsList() {
			out = append(out, u)
			continue
		}
		list, err := u.ToList()
		if err != nil {
			t.Fatal(err)
		}
		for i := range list.Items {
			out = append(out, &list.Items[i])
		}
	}
}

func TestQueuesOfOthersAreCarriedOverFieldByField(t *testing.T) {
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := queueimport.Import(parse(t, string(raw)))
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		var b strings.Builder
		for _, q := range r.Queues {
			fmt.Fprintf(&b, "%s parent=%q stop=%q minRunTime=%q preferred=%v", q.Name, q.Spec.Parent, q.Spec.Stop, q.Spec.MinRunTime, q.Spec.PreferredGPUs)
			if q.Spec.Weight != nil {
				fmt.Fprintf(&b, " weight=%d", *q.Spec.Weight)
			}
			if ns := q.Spec.Namespaces; ns != nil {
				fmt.Fprintf(&b, " names=%v labeled=%v", ns.Names, ns.LabeledPods)
				if ns.Selector != nil {
					fmt.Fprintf(&b, " selector=%v", ns.Selector.MatchLabels)
				}
			}
			b.WriteString("\n")
			for _, quota := range q.Spec.Quotas {
				fmt.Fprintf(&b, "  %s nominal=%s borrow=%v lend=%v\n", quota.GPUs, &quota.Nominal, quota.BorrowingLimit, quota.LendingLimit)
			}
		}
		for _, n := range r.Notes {
			fmt.Fprintf(&b, "%s: %s: %s\n", n.Object, n.Field, n.Text)
		}
		golden := strings.TrimSuffix(file, ".yaml") + ".golden"
		if *update {
			if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
		if _, problems := queues.Specs(r.Queues); len(problems) > 0 && !strings.Contains(file, "kai") { // whose parent is not there
			t.Errorf("%s: the Queues are not valid: %v", file, problems)
		}
	}
}

func TestWhatIsNoQueueIsRefused(t *testing.T) {
	const kai = "apiVersion: scheduling.run.ai/v2\nkind: Queue\nmetadata: {name: %s}\nspec: {parentQueue: %s, resources: {gpu: {quota: %s}}}\n---\n"
	for name, c := range map[string]struct{ text, want string }{
		"a number that is none": {
			fmt.Sprintf(kai, "a", `""`, "many"), "queue/a: spec.resources.gpu.quota is many; it must be a number",
		},
		"two of one name": {
			fmt.Sprintf(kai, "a", `""`, "1") + "apiVersion: scheduling.volcano.sh/v1beta1\nkind: Queue\nmetadata: {name: a}\n",
			"queue/a and queue/a would both be Queue a: rename one, or import them apart",
		},
		"a circle": {
			fmt.Sprintf(kai, "a", "b", "1") + fmt.Sprintf(kai, "b", "a", "1"), "is below itself",
		},
		"a circle beside": {
			fmt.Sprintf(kai, "a", "b", "1") + fmt.Sprintf(kai, "b", "b", "1"), "queue/b is below itself (b, below b): remove one of these parents",
		},
	} {
		if _, err := queueimport.Import(parse(t, c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %s", name, err, c.want)
		}
	}
}

// TestNoObjectIsTooOdd takes objects whose fields have other types than they should.
func TestNoObjectIsTooOdd(t *testing.T) {
	for _, kind := range []string{"kueue.x-k8s.io/v1beta2 ClusterQueue", "kueue.x-k8s.io/v1beta2 Cohort", "kueue.x-k8s.io/v1beta2 LocalQueue", "kueue.x-k8s.io/v1beta2 ResourceFlavor", "scheduling.run.ai/v2 Queue", "scheduling.volcano.sh/v1beta1 Queue", "v1 ResourceQuota"} {
		version, name, _ := strings.Cut(kind, " ")
		for _, spec := range []string{"null", "[]", "5", "{resourceGroups: {}}", "{resourceGroups: [{flavors: [{name: 5, resources: [1, {name: nvidia.com/gpu}]}]}]}", "{resources: []}", "{hard: [1]}", "{namespaceSelector: [1]}", "{namespaceSelector: {matchLabels: 5}}"} {
			text := fmt.Sprintf("apiVersion: %s\nkind: %s\nmetadata: {name: a, namespace: b}\nspec: %s\n", version, name, spec)
			_, _ = queueimport.Import(parse(t, text)) // it does not panic
		}
	}
}
