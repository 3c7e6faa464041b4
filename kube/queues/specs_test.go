package queues_test

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/quota"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/queues"
)

// began is when the first Queue of a test was made.
var began = time.Date(2026, 11, 24, 9, 0, 0, 0, time.UTC)

// queueOf is a Queue that was made so many minutes after the first.
func queueOf(name string, minute int, edits ...func(*v1alpha1.QueueSpec)) *v1alpha1.Queue {
	q := &v1alpha1.Queue{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Time{Time: began.Add(time.Duration(minute) * time.Minute)}}}
	for _, edit := range edits {
		edit(&q.Spec)
	}
	return q
}

func amount(text string) *resource.Quantity {
	q := resource.MustParse(text)
	return &q
}

// textOf writes problems, one a line.
func textOf(problems []quota.Problem) string {
	var lines []string
	for _, p := range problems {
		lines = append(lines, fmt.Sprintf("%s %s: %s", p.Queue, p.Field, p.Text))
	}
	return strings.Join(lines, "\n")
}

func TestSpecs(t *testing.T) {
	ceiling, weight := int32(5), int32(3)
	q := queueOf("vision", 1, func(s *v1alpha1.QueueSpec) {
		s.Parent, s.Weight, s.PriorityCeiling = "org", &weight, &ceiling
		s.Quotas = []v1alpha1.QueueQuota{
			{GPUs: "All", Nominal: *amount("7"), BorrowingLimit: amount("0.5"), LendingLimit: amount("0")},
			{GPUs: "Equivalents", Nominal: *amount("1500m")},
			{GPUs: "NVIDIA A100 80GB PCIe", Nominal: *amount("2")},
			{GPUs: "Tesla-T4-SHARED", Nominal: *amount("0.142857143")},
			{GPUs: "mig-1g.5gb.me", Nominal: *amount("14")},
		}
		s.PerUser = []v1alpha1.QueueLimit{{GPUs: "All", Max: *amount("2")}}
		s.PerPod = []v1alpha1.QueueLimit{{GPUs: "Tesla T4", Max: *amount("4")}}
		s.Sharing = []v1alpha1.QueueSharing{v1alpha1.SharingMPS, v1alpha1.SharingWhole}
		s.Order, s.Stop = v1alpha1.OrderFair, v1alpha1.StopHoldAndDrain
		s.MinRunTime, s.MaxRunTime, s.Fairness = "90s", "2d", &v1alpha1.QueueFairness{HalfLife: "0"}
	})
	const no = quota.Unlimited
	want := []quota.Spec{
		{
			Name: "vision", Parent: "org", Weight: 3000, Ceiling: &ceiling, FairUsers: true, Stop: true, MinRunTime: 90 * time.Second, Created: began.Add(time.Minute),
			Quotas: []quota.Quota{
				{Resource: quota.GPUs, Nominal: 7 * quota.Whole, Borrowing: quota.Whole / 2, Lending: 0},
				{Resource: quota.Equivalents, Nominal: quota.Whole * 3 / 2, Borrowing: no, Lending: no},
				{Resource: "NVIDIA-A100-80GB-PCIe", Nominal: 2 * quota.Whole, Borrowing: no, Lending: no},
				{Resource: "Tesla-T4", Nominal: quota.Whole / 7, Borrowing: no, Lending: no},
				{Resource: "mig-1g.5gb+me", Nominal: 14 * quota.Whole, Borrowing: no, Lending: no},
			},
			PerUser: []quota.Limit{{Resource: quota.GPUs, Most: 2 * quota.Whole}},
			PerPod:  []quota.Limit{{Resource: "Tesla-T4", Most: 4 * quota.Whole}},
			Sharing: sharing.WayWhole | sharing.WayMPS,
		},
		{Name: "plain", Weight: 1000, MinRunTime: 10 * time.Minute, HalfLife: 168 * time.Hour, Created: began},
	}
	got, problems := queues.Specs([]*v1alpha1.Queue{q, queueOf("plain", 0)})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if len(problems) > 0 {
		t.Errorf("problems:\n%s", textOf(problems))
	}
	if got := queues.Rules([]*v1alpha1.Queue{q, {}})[q.Name].Most; got != 48*time.Hour {
		t.Errorf("a workload runs %v at most, want 48h", got)
	}
}

func TestProblemsOfOneQueue(t *testing.T) {
	gpus := func(name string) func(*v1alpha1.QueueSpec) {
		return func(s *v1alpha1.QueueSpec) {
			s.Parent, s.Quotas = "org", []v1alpha1.QueueQuota{{GPUs: name, Nominal: *amount("1")}}
		}
	}
	for _, tt := range []struct {
		name string
		edit func(*v1alpha1.QueueSpec)
		want string
	}{
		{"a product by a part of its name", gpus("A100"), "x spec.quotas[0].gpus: A100 is not a known GPU product; did you mean NVIDIA-A100-80GB-PCIe?"},
		{"a product with a letter wrong", gpus("NVIDIA-H100-80GB-HBM8"), "x spec.quotas[0].gpus: NVIDIA-H100-80GB-HBM8 is not a known GPU product; did you mean NVIDIA-H100-80GB-HBM3?"},
		{"a product that nothing is like", gpus("quantum"), "x spec.quotas[0].gpus: quantum is not a known GPU product; did you mean All?"},
		{"a product of the cluster that has a letter wrong", gpus("ACME-X901"), "x spec.quotas[0].gpus: ACME-X901 is not a known GPU product; did you mean ACME-X900?"},
		{"a product of the cluster that no table has", gpus("ACME X900"), ""},
		{"a MIG profile with other memory", gpus("mig-1g.6gbb"), "x spec.quotas[0].gpus: no GPU has the MIG profile 1g.6gbb; the nearest is 1g.6gb"},
		{"a MIG profile that no GPU has", gpus("mig-5g.20gb"), "x spec.quotas[0].gpus: no GPU has the MIG profile 5g.20gb; the nearest is 4g.20gb"},
		{"times that cannot be read", func(s *v1alpha1.QueueSpec) {
			s.MinRunTime, s.MaxRunTime, s.Fairness = "soon", "-1h", &v1alpha1.QueueFairness{HalfLife: "1w"}
		}, `x spec.minRunTime: "soon" is not a duration: write one such as 30s, 10m, 1h30m or 2d
x spec.fairness.halfLife: "1w" is not a duration: write one such as 30s, 10m, 1h30m or 2d
x spec.maxRunTime: "-1h" is not a duration: write one such as 30s, 10m, 1h30m or 2d`},
		{"an end before the least time", func(s *v1alpha1.QueueSpec) { s.MaxRunTime = "5m" }, "x spec.maxRunTime: 5m is less than spec.minRunTime, 10m0s"},
		{"limits of a queue without a parent", func(s *v1alpha1.QueueSpec) {
			s.Quotas = []v1alpha1.QueueQuota{{GPUs: "All", BorrowingLimit: amount("1"), LendingLimit: amount("1")}}
		}, `x spec.quotas[0].borrowingLimit: the queue has no parent, and borrows nothing
x spec.quotas[0].lendingLimit: the queue has no parent, and lends only to queues below it, without a limit`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			specs, problems := queues.Specs([]*v1alpha1.Queue{queueOf("x", 0, tt.edit)}, "ACME-X900")
			if diff := cmp.Diff(tt.want, textOf(problems)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			for _, p := range problems {
				if p.Fatal {
					t.Errorf("%s keeps the queue from admitting", p.Text)
				}
			}
			if s := specs[0]; s.MinRunTime != 10*time.Minute || s.HalfLife != 168*time.Hour {
				t.Errorf("times that cannot be read are %v and %v, want the usual", s.MinRunTime, s.HalfLife)
			}
		})
	}
}

func TestParts(t *testing.T) {
	for _, tt := range []struct {
		text string
		want int64
	}{
		{"0", 0},
		{"1", quota.Whole},
		{"0.5", quota.Whole / 2},
		{"500m", quota.Whole / 2},
		{"0.25", quota.Whole / 4},
		{"2k", 2000 * quota.Whole},
		{"0.333333333", quota.Whole / 3},
		{"0.142857143", quota.Whole / 7},
		{"1e-30", 0},
		{"-1", -quota.Whole},
		{"-0.5", -quota.Whole / 2},
		{"10M", 10_000_000 * quota.Whole},
		{"1e30", 10_000_000 * quota.Whole},
		{"-1e30", -10_000_000 * quota.Whole},
		{"9999999.999", 10_000_000*quota.Whole - 721},
	} {
		if got := queues.Parts(*amount(tt.text)); got != tt.want {
			t.Errorf("Parts(%s) = %d, want %d", tt.text, got, tt.want)
		}
	}
	if got := queues.Parts(*resource.NewQuantity(math.MaxInt64, resource.DecimalSI)); got != 10_000_000*quota.Whole {
		t.Errorf("Parts of the most there is = %d", got)
	}
}

// TestAnAmountIsWrittenAsItIsRead holds for all that people can write in thousandths.
func TestAnAmountIsWrittenAsItIsRead(t *testing.T) {
	for milli := range int64(5000) {
		q := *resource.NewMilliQuantity(milli, resource.DecimalSI)
		if got := queues.Quantity(queues.Parts(q)); got.Cmp(q) != 0 {
			t.Errorf("%s is written %s", q.String(), got.String())
		}
	}
	if got := queues.Quantity(quota.Whole * 3 / 2); got.String() != "1500m" {
		t.Errorf("one and a half is %s", got.String())
	}
}
