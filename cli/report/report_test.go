package report

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/audit"
	core "berth.dev/berth/core/cost"
	"berth.dev/berth/kube/kubetest"
	"berth.dev/berth/kube/view"
	"berth.dev/berth/test/golden"
)

// weekAnswers is what the ledger answers of the simulated week of three teams; TestAWeekOfThreeTeams of controller/meter writes it.
const weekAnswers = "../../controller/meter/testdata/week.json"

// week is the simulated week, with a cluster after it whose names would act in a page.
func week(t *testing.T) *facts {
	raw, err := os.ReadFile(weekAnswers)
	if err != nil {
		t.Fatal(err)
	}
	var answers struct {
		Cost                  core.Report
		User, Queue, Workload core.UseReport
	}
	if err := json.Unmarshal(raw, &answers); err != nil {
		t.Fatal(err)
	}
	end := answers.Cost.To
	f := &facts{cost: answers.Cost, users: answers.User, queues: answers.Queue, workloads: answers.Workload, target: 0.7, live: now()}
	f.idle = core.IdleReport{Now: end, Rows: []core.IdleRow{
		{Namespace: "speech", Kind: "Notebook", Owner: "<script>|x", User: "dan", GPUs: 1, Since: end.Add(-5 * time.Hour), CostMicros: 15_000_000, Currency: "USD"},
		{Namespace: "language", Kind: "Deployment", Owner: "chat", User: "eve", GPUs: 2, Since: end.Add(-50 * time.Hour), CostMicros: 50_000_000, Currency: "USD"},
	}}
	f.audit.Rows = []audit.Row{{At: end.Add(-time.Hour), Act: audit.Asked, UID: "p", Queue: "vision"}, {At: end, Act: audit.Granted, UID: "p", Queue: "vision"}}
	return f
}

// now is a cluster with pods that share GPUs, and things that are left over.
func now() *live {
	l := &live{exporters: 2}
	l.nodes = []*v1.Node{
		kubetest.Inventory("a100-1", kubetest.A100s("a100-1", 8), api.ResourceGPU, 8),
		kubetest.Inventory("shared-1", kubetest.Share(kubetest.A100s("shared-1", 2), 4), api.ResourceGPU, 8),
		kubetest.Inventory("mig-1", kubetest.Cut("mig-1", kubetest.A100s("mig-1", 1)), "nvidia.com/mig-1g.5gb", 7),
	}
	l.pods = []*v1.Pod{
		kubetest.Observed(kubetest.Pod("one", "a100-1", api.ResourceGPU, 1), api.ResourceGPU, "GPU-a100-1-0"),
		kubetest.Observed(kubetest.Pod("a", "shared-1", api.ResourceGPU, 1), api.ResourceGPU, "GPU-shared-1-0::0"),
		kubetest.Observed(kubetest.Pod("b", "shared-1", api.ResourceGPU, 1), api.ResourceGPU, "GPU-shared-1-0::1"),
		kubetest.Observed(kubetest.Pod("m", "mig-1", "nvidia.com/mig-1g.5gb", 1), "nvidia.com/mig-1g.5gb", "MIG-mig-1-0-3"),
	}
	l.view = view.Cluster(l.nodes, l.pods)
	l.view.SetPrices(l.nodes, core.NewRules([]core.Rule{{Name: "any", Match: core.Match{Product: "NVIDIA-A100-SXM4-40GB"}, PerGPU: true, Micros: 3_000_000, Currency: "USD"}}), time.Time{})
	l.leftovers = []view.Leftover{{Kind: "Notebook", Namespace: "speech", Name: "old", What: view.LeftNotebook, Bytes: 100 << 30}, {Kind: "Job", Namespace: "vision", Name: "done", What: view.LeftJob, Since: time.Date(2026, 11, 7, 0, 0, 0, 0, time.UTC)}}
	l.queues = []*v1alpha1.Queue{{ObjectMeta: metav1.ObjectMeta{Name: "vision"}, Spec: v1alpha1.QueueSpec{
		Parent: "research", Order: v1alpha1.OrderFair, Stop: v1alpha1.StopHold, MaxRunTime: "8h", Quotas: []v1alpha1.QueueQuota{{GPUs: "All", Nominal: resource.MustParse("7"), BorrowingLimit: new(resource.MustParse("2"))}},
		PerUser: []v1alpha1.QueueLimit{{GPUs: "All", Max: resource.MustParse("4")}},
	}}}
	l.classes = []schedulingv1.PriorityClass{
		{ObjectMeta: metav1.ObjectMeta{Name: "gpu-low"}, Value: 100, PreemptionPolicy: new(v1.PreemptNever), GlobalDefault: true}, {ObjectMeta: metav1.ObjectMeta{Name: "system-node-critical"}, Value: 2000001000},
	}
	return l
}

// TestThePage has the page of the simulated week looked at by a person.
//
// rows: NB-50 NB-57 ML-51 ML-64 GS-37 GS-85 GS-93 AS-42 AS-62
func TestThePage(t *testing.T) {
	p := pageOf(week(t))
	golden.File(t, "week.md", p.markdown())
	golden.File(t, "week.html", p.html())
}

func TestTheHTMLIsOneFileAndEscapesNames(t *testing.T) {
	got := pageOf(week(t)).html()
	for _, wrong := range []string{"<script", "http:", "https:", "src=", "NaN"} {
		if strings.Contains(got, wrong) {
			t.Errorf("the page has %s", wrong)
		}
	}
	if !strings.Contains(got, "&lt;script&gt;|x") || !strings.Contains(got, `<rect width="110.0"`) {
		t.Errorf("the page lacks a name or bars:\n%s", got)
	}
	if text := pageOf(week(t)).markdown(); !strings.Contains(text, `speech/Notebook/&lt;script>\|x`) {
		t.Errorf("the Markdown has a name that acts:\n%s", text)
	}
}

func TestAClusterThatCannotBeReadIsSaid(t *testing.T) {
	f := week(t)
	f.live, f.omitted = nil, "list nodes: forbidden"
	got := pageOf(f).markdown()
	if !strings.Contains(got, "What the cluster is like now could not be read: list nodes: forbidden") || strings.Contains(got, "## Left over") {
		t.Errorf("the page is\n%s", got)
	}
}

func TestAnEmptyLedger(t *testing.T) {
	at := time.Date(2026, 11, 24, 15, 0, 0, 0, time.UTC)
	f := &facts{cost: core.Report{From: at.AddDate(0, 0, -7), To: at, Began: at}, target: 0.7}
	got := pageOf(f).markdown()
	if strings.Count(got, "Nothing.") != 7 || !strings.Contains(got, "The ledger began at 2026-11-24 15:00 UTC") {
		t.Errorf("the page is\n%s", got)
	}
	pageOf(f).html()
}

func TestAPageSaysFromWhenWaitsAreCounted(t *testing.T) {
	f := week(t)
	f.audit.Cut = true
	if got, want := pageOf(f).markdown(), "these are those since 2026-11-08 23:00 UTC."; !strings.Contains(got, want) {
		t.Errorf("the page lacks %q", want)
	}
}

func TestJobsThatStillHavePodsAreNotLeftOver(t *testing.T) {
	jobs := []batchv1.Job{{ObjectMeta: metav1.ObjectMeta{Name: "ends"}, Status: batchv1.JobStatus{Active: 1}}, {ObjectMeta: metav1.ObjectMeta{Name: "done"}}}
	if got := finished(jobs); len(got) != 1 || got[0].Name != "done" {
		t.Errorf("finished are %v", got)
	}
}
