package devices_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// elastic makes n pods of a gang of a priority, which needs least of them and came
// so many seconds after the first.
func elastic(gang string, priority int32, after, n, least int) []*v1.Pod {
	pods := gangOf(gang, n, least, "gpu=1")
	for _, p := range pods {
		p.Spec.Priority = &priority
		p.CreationTimestamp = metav1.NewTime(time.Unix(1e9+int64(after), 0))
	}
	return pods
}

// ends has every pod that is evicted end, and those that wait get their places.
func (m *making) ends() {
	for _, name := range m.evicted {
		if m.pods[types.UID(name)] != nil {
			m.remove(name)
			m.rests(100 * time.Millisecond)
		}
	}
}

func TestMembersBeyondTheMinimumPreemptLikeAnyPod(t *testing.T) {
	for _, tt := range []struct {
		name     string
		lo, hi   []*v1.Pod
		topology string
		wantLo   int
		wantHi   int
	}{
		{"surplus of higher priority takes surplus of lower", elastic("lo", 1, 0, 16, 4), elastic("hi", 5, 1, 8, 4), "", 8, 8},
		{"also where the gang must be near", elastic("lo", 1, 0, 16, 4), elastic("hi", 5, 1, 3, 1), "node", 13, 3},
		{"beyond the surplus the whole gang goes", elastic("lo", 1, 0, 16, 4), elastic("hi", 5, 1, 16, 4), "", 0, 16},
		{"surplus of equal priority stays", elastic("lo", 5, 0, 16, 4), elastic("hi", 5, 1, 8, 4), "", 16, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newMaking(t, 4, 4, 4, 4)
				m.inLines = true
				m.add(tt.lo...)
				m.rests(time.Second)
				for _, p := range tt.hi {
					if tt.topology != "" {
						p.Annotations["berth.dev/topology"] = tt.topology
					}
				}
				m.add(tt.hi...)
				for range 12 {
					m.rests(time.Second)
					m.ends()
				}
				if lo, hi := m.bound("lo"), m.bound("hi"); len(lo) != tt.wantLo || len(hi) != tt.wantHi {
					t.Errorf("lo runs %d, want %d; hi runs %d, want %d; evicted %v\n%v", len(lo), tt.wantLo, len(hi), tt.wantHi, m.evicted, m.answers)
				}
				for _, name := range m.evicted {
					if !strings.HasPrefix(name, "lo-") {
						t.Errorf("%s was evicted", name)
					}
				}
			})
		})
	}
}

func TestGangsOfEqualPriorityShareWhatIsOverTheirMinimums(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaking(t, 4, 4, 4, 4)
		m.inLines = true
		m.add(gangOf("before", 16, 16, "gpu=1")...)
		m.rests(time.Second)
		m.add(elastic("a", 0, 1, 16, 4)...)
		m.add(elastic("b", 0, 2, 16, 4)...)
		m.rests(time.Second)
		for i := range 16 {
			m.remove(fmt.Sprint("before-", i))
		}
		m.rests(5 * time.Second)
		if a, b := len(m.bound("a")), len(m.bound("b")); a != 8 || b != 8 {
			t.Errorf("a has %d GPUs and b %d, want 8 each", a, b)
		}
		if len(m.evicted) > 0 {
			t.Errorf("evicted: %v", m.evicted)
		}
	})
}

func TestGangsOfEqualPriorityShareAsTheirMembersEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMaking(t, 4, 4, 4, 4)
		m.inLines = true
		m.add(elastic("a", 0, 1, 12, 4)...)
		m.rests(time.Second)
		m.add(elastic("b", 0, 2, 16, 4)...)
		m.rests(time.Second)
		for i := range 12 { // each ends, and its controller makes another
			next := elastic("a", 0, 10+i, 13+i, 4)[12+i]
			m.remove(fmt.Sprint("a-", i))
			m.add(next)
			m.rests(time.Second)
		}
		if a, b := len(m.bound("a")), len(m.bound("b")); a != 8 || b != 8 {
			t.Errorf("a has %d GPUs and b %d, want 8 each", a, b)
		}
		if len(m.evicted) > 0 {
			t.Errorf("evicted: %v", m.evicted)
		}
	})
}
