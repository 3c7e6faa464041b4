package cli_test

import (
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestLongTextsDoNotFillTheScreen has users ask for what the API server accepts and
// no person can read: expressions, values and constraints by the thousand. What
// `berth why` prints of each, and of all, stays short, and says what it leaves out;
// JSON has everything.
func TestLongTextsDoNotFillTheScreen(t *testing.T) {
	var many []string
	for i := range 20_000 {
		many = append(many, fmt.Sprint(i))
	}
	var spreads []v1.TopologySpreadConstraint
	for i := range 1000 {
		spreads = append(spreads, v1.TopologySpreadConstraint{MaxSkew: 1, TopologyKey: fmt.Sprint("k", i), WhenUnsatisfiable: v1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{}})
	}
	s := newStage(t, node("n-1", "Tesla T4", 4, "", "nvidia.com/gpu", 4),
		pending("evil", "affinity", "1", func(p *v1.Pod) {
			p.Spec.Affinity = &v1.Affinity{NodeAffinity: &v1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &v1.NodeSelector{NodeSelectorTerms: []v1.NodeSelectorTerm{
				{MatchExpressions: []v1.NodeSelectorRequirement{{Key: "a", Operator: v1.NodeSelectorOpIn, Values: many}}},
			}}}}
		}),
		pending("evil", "spread", "1", func(p *v1.Pod) { p.Spec.TopologySpreadConstraints = spreads }),
		pending("evil", "scheduler", "1", func(p *v1.Pod) { p.Spec.SchedulerName, p.Status.Conditions = strings.Repeat("x", 200_000), nil }),
	)
	for _, args := range [][]string{{"why", "-A"}, {"why", "-n", "evil", "affinity"}, {"why", "-n", "evil", "spread"}, {"why", "-n", "evil", "scheduler"}} {
		got := s.ok(args...)
		if len(got) > 20_000 || strings.Count(got, "\n") > 100 {
			t.Errorf("berth %v prints %d bytes in %d lines", args, len(got), strings.Count(got, "\n"))
		}
		for line := range strings.SplitSeq(got, "\n") {
			if n := utf8.RuneCountInString(line); n > 2500 {
				t.Errorf("berth %v: a line of %d characters: %.200s", args, n, line)
			}
		}
		if !strings.Contains(got, " more]") {
			t.Errorf("berth %v does not say what it leaves out:\n%.2000s", args, got)
		}
	}
	if got := s.ok("why", "-n", "evil", "affinity", "-o", "json"); !strings.Contains(got, "19999") {
		t.Errorf("JSON has lost a value, of %d bytes", len(got))
	}
}
