package meter

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/ledger"
)

// copied is a cluster that has GPUUsageDays.
func copied(t *testing.T, f interceptor.Funcs, objects ...client.Object) client.WithWatch {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := v1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{v1alpha1.GroupVersion})
	mapper.AddSpecific(v1alpha1.GroupVersion.WithKind("GPUUsageDay"), v1alpha1.GPUUsageDays, v1alpha1.GroupVersion.WithResource("gpuusageday"), meta.RESTScopeNamespace)
	return fake.NewClientBuilder().WithScheme(scheme).WithRESTMapper(mapper).WithInterceptorFuncs(f).WithObjects(objects...).Build()
}

// closeAll closes the days that have ended, and does what there is to do then.
func (r *rig) closeAll(m *Meter) {
	r.Helper()
	for closed := true; closed; {
		var err error
		if closed, err = r.book.CloseDay(r.Context(), r.clock); err != nil {
			r.Fatal(err)
		}
	}
	if err := m.keepBooks(r.Context()); err != nil {
		r.Fatal(err)
	}
}

// shown are the objects of a cluster, for people.
func shown(t *testing.T, c client.Client) string {
	t.Helper()
	list := &v1alpha1.GPUUsageDayList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	var lines []string
	for i := range list.Items {
		o := &list.Items[i]
		lines = append(lines, strings.Join([]string{o.Namespace, o.Name, o.Spec.GPUHours, o.Spec.Cost}, " "))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

// copiedDays is a meter of three days in a file, of which two are closed and copied.
func copiedDays(t *testing.T, c client.Client, path string) (*rig, *Meter) {
	r := rigOf(t, path)
	m := New(r.book, Options{UsageDays: 62})
	m.tally, m.copies = r.tally, c
	r.namespaces = map[string]*v1.Namespace{"vision": {ObjectMeta: metav1.ObjectMeta{Name: "vision"}}}
	r.node(aNode("n", 2, 0))
	r.pod(aPod("a", "n", 1, 0))
	r.flush()
	r.clock = at(2 * 1440)
	r.flush()
	r.closeAll(m)
	return r, m
}

// TestClosedDaysAreCopiedAndRestored loses a ledger: what was charged by namespace, user, queue, and product is as it was.
func TestClosedDaysAreCopiedAndRestored(t *testing.T) {
	c := copied(t, interceptor.Funcs{})
	r, _ := copiedDays(t, c, filepath.Join(t.TempDir(), "ledger.db"))
	want := "kube-system 2026-11-02 15.00 15.00 USD\nkube-system 2026-11-03 24.00 24.00 USD\nvision 2026-11-02 15.00 15.00 USD\nvision 2026-11-03 24.00 24.00 USD"
	if diff := cmp.Diff(want, shown(t, c)); diff != "" {
		t.Fatalf("the copies (-want +got):\n%s", diff)
	}
	fresh := rigOf(t, filepath.Join(t.TempDir(), "ledger.db"))
	again := New(fresh.book, Options{UsageDays: 62})
	again.copies = c
	if err := again.restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	fresh.clock = r.clock
	fresh.start()
	again.tally = fresh.tally
	until := at(2 * 1440).Truncate(cost.Day) // the last midnight
	for _, by := range []cost.By{cost.Namespace, cost.User, cost.Queue, cost.Product} {
		before, err := r.book.Rows(t.Context(), at(0).Truncate(cost.Day), until, by)
		if err != nil {
			t.Fatal(err)
		}
		after, err := fresh.book.Rows(t.Context(), at(0).Truncate(cost.Day), until, by)
		if diff := cmp.Diff(before, after); err != nil || diff != "" {
			t.Errorf("by %v, %v (-lost +restored):\n%s", by, err, diff)
		}
	}
	checked, err := fresh.book.Verify(t.Context())
	if err != nil || checked.Restored != 2 || len(checked.Problems) > 0 || len(checked.Losses) != 1 || !checked.Losses[0].From.Equal(until) {
		t.Errorf("the check finds %+v, %v; want 2 days restored, and what came after them lost", checked, err)
	}
	// What is still there counts since the last copy: the pod goes on, and days that were restored stay as they are.
	fresh.namespaces = r.namespaces
	fresh.node(aNode("n", 2, 0))
	fresh.pod(aPod("a", "n", 1, 0))
	fresh.flush()
	fresh.clock = at(3 * 1440)
	fresh.flush()
	fresh.closeAll(again)
	lines := slices.Sorted(slices.Values(append(strings.Split(want, "\n"), "kube-system 2026-11-04 24.00 24.00 USD", "vision 2026-11-04 24.00 24.00 USD")))
	if diff := cmp.Diff(lines, strings.Split(shown(t, c), "\n")); diff != "" {
		t.Errorf("the copies after the next day (-want +got):\n%s", diff)
	}
	if err := again.restore(t.Context()); err != nil {
		t.Errorf("a ledger that is not empty: %v", err)
	}
}

// TestLostDaysAreRestored has a ledger in which salvage has found the sums of a day lost: its copy has them, though facts of the day are not there any longer.
func TestLostDaysAreRestored(t *testing.T) {
	path := filepath.Join(t.TempDir(), "ledger.db")
	c := copied(t, interceptor.Funcs{})
	r, m := copiedDays(t, c, path)
	until := at(2 * 1440).Truncate(cost.Day)
	before, err := r.book.Rows(t.Context(), at(0).Truncate(cost.Day), until, cost.Namespace)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	day := at(1440).Truncate(cost.Day).UnixMilli()
	for _, change := range []string{"DELETE FROM sums WHERE day = ?", "DELETE FROM days WHERE day = ?", "DELETE FROM holds WHERE begins <= ?", "INSERT INTO reopened VALUES (?, 'the file was damaged')"} {
		if _, err := db.ExecContext(t.Context(), change, day); err != nil {
			t.Fatal(err)
		}
	}
	if err := m.restore(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.closeAll(m)
	after, err := r.book.Rows(t.Context(), at(0).Truncate(cost.Day), until, cost.Namespace)
	if diff := cmp.Diff(before, after); err != nil || diff != "" {
		t.Errorf("%v (-before +after):\n%s", err, diff)
	}
}

// TestCopiesFollowNamespaces deletes a namespace, and lets time pass: each row stays in one place until it is too old.
func TestCopiesFollowNamespaces(t *testing.T) {
	theirs := &v1alpha1.GPUUsageDay{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "notes"}}
	unknown := &v1alpha1.GPUUsageDay{ObjectMeta: metav1.ObjectMeta{Namespace: "vision", Name: "2026-11-01"}}
	c := copied(t, interceptor.Funcs{}, theirs, unknown)
	r, m := copiedDays(t, c, filepath.Join(t.TempDir(), "ledger.db"))
	has := func(when, want string) {
		t.Helper()
		if got := shown(t, c); !strings.Contains(got, want) {
			t.Errorf("%s the copies are\n%s\nwant among them\n%s", when, got, want)
		}
	}
	has("before the ledger's first day", "vision 2026-11-01")
	days, _, err := readUsageDays(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	for key, object := range days {
		if key.Namespace == "vision" && key.Name != "notes" {
			if err := c.Delete(t.Context(), object); err != nil { // as the end of the namespace does
				t.Fatal(err)
			}
		}
	}
	r.namespaces["vision"].DeletionTimestamp = &metav1.Time{Time: r.clock}
	r.closeAll(m)
	has("of a namespace that is gone", "kube-system 2026-11-02 30.00 30.00 USD\nkube-system 2026-11-03 48.00 48.00 USD\nvision notes")
	restored := readCopies(t, c)
	for i := range restored {
		if got := &restored[i]; ledger.SumsHash(got.Rows) != got.Sums {
			t.Errorf("the copies of %s are not whole", got.Day)
		}
	}
	m.o.UsageDays = 1
	r.closeAll(m)
	if got, want := shown(t, c), "kube-system 2026-11-03 48.00 48.00 USD\nvision notes"; strings.Join(strings.Fields(got), " ") != strings.Join(strings.Fields(want), " ") {
		t.Errorf("a day later the copies are\n%s\nwant\n%s", got, want)
	}
}

func readCopies(t *testing.T, c client.Client) []ledger.Copy {
	t.Helper()
	days, served, err := readUsageDays(t.Context(), c)
	if err != nil || !served {
		t.Fatalf("served %v, %v", served, err)
	}
	return days.copies()
}

// TestDamagedCopiesAreLosses restores from copies that were changed: what is there is used, and the day is named.
func TestDamagedCopiesAreLosses(t *testing.T) {
	for _, tt := range []struct {
		name    string
		change  func(o *v1alpha1.GPUUsageDay)
		charged int64 // dollars of the two days
	}{
		{"nothing", func(*v1alpha1.GPUUsageDay) {}, 78},
		{"a row that is missing", func(o *v1alpha1.GPUUsageDay) { o.Spec.Rows = nil }, 63},
		{"another amount", func(o *v1alpha1.GPUUsageDay) { o.Spec.Rows[0].Micros = 1_000_000 }, 64},
		{"a row of another namespace", func(o *v1alpha1.GPUUsageDay) { o.Spec.Rows[0].Namespace = "speech" }, 63},
		{"a word that is unknown", func(o *v1alpha1.GPUUsageDay) { o.Spec.Rows[0].What = "lent" }, 63},
		{"other parts", func(o *v1alpha1.GPUUsageDay) { o.Spec.PartsPerGPU = 1000 }, 63},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := copied(t, interceptor.Funcs{})
			r, _ := copiedDays(t, c, filepath.Join(t.TempDir(), "ledger.db"))
			days, _, err := readUsageDays(t.Context(), c)
			if err != nil {
				t.Fatal(err)
			}
			object := days[client.ObjectKey{Namespace: "vision", Name: "2026-11-02"}]
			tt.change(object)
			fresh := rigOf(t, filepath.Join(t.TempDir(), "ledger.db"))
			if n, err := fresh.book.Restore(t.Context(), days.copies(), r.clock); err != nil || n != 2 {
				t.Fatalf("restored %d days, %v", n, err)
			}
			rows, err := fresh.book.Rows(t.Context(), at(0).Truncate(cost.Day), at(2*1440).Truncate(cost.Day), cost.Product)
			if err != nil {
				t.Fatal(err)
			}
			var micros int64
			for _, row := range rows {
				micros += row.Micros
			}
			losses, err := fresh.book.Losses(t.Context(), time.Time{}, at(1440).Truncate(cost.Day))
			if want := tt.charged * 1_000_000; err != nil || micros != want || (len(losses) > 0) != (tt.charged != 78) {
				t.Errorf("%d micros are charged, want %d; lost is %v, %v", micros, want, losses, err)
			}
		})
	}
}

// TestCopiesThatCannotBeUsed has clusters without the definition, without the permissions, and without an answer.
func TestCopiesThatCannotBeUsed(t *testing.T) {
	refuse := func(err error) interceptor.Funcs {
		return interceptor.Funcs{List: func(context.Context, client.WithWatch, client.ObjectList, ...client.ListOption) error { return err }}
	}
	away := errors.New("away")
	for _, tt := range []struct {
		name string
		c    client.Client
		want error
	}{
		{"no definition", fake.NewClientBuilder().Build(), nil},
		{"no permissions", copied(t, refuse(apierrors.NewForbidden(v1alpha1.GPUUsageDays.GroupResource(), "", nil))), nil},
		{"no answer", copied(t, refuse(away)), away},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			m := New(r.book, Options{UsageDays: 62})
			m.tally, m.copies = r.tally, tt.c
			if err := m.restore(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("restoring gives %v, want %v", err, tt.want)
			}
			if err := m.copyDays(t.Context()); !errors.Is(err, tt.want) {
				t.Errorf("copying gives %v, want %v", err, tt.want)
			}
			if began, err := r.book.Began(t.Context()); err != nil || !began.IsZero() {
				t.Errorf("the ledger began %v, %v, want that it is empty", began, err)
			}
		})
	}
}
