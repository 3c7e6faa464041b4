package server

import (
	"testing"
	"testing/synctest"
)

// TestGangsPreemptPodsThatFiltersMind has gangs of higher priority come for which pods of lower
// priority are in the way by what kube-scheduler's filters say, on nodes with free GPUs.
func TestGangsPreemptPodsThatFiltersMind(t *testing.T) {
	bubbles(t)
	for _, s := range []scenario{
		{"a host port on each of four nodes", "", "4 4 4 4", "low n=4 min=1 port=80 prio=10 | hi n=4 port=80 prio=1000", "hi!host gone:4"},
		{"a host port, and only as many go as must", "", "4 4 4 4", "low n=3 min=1 port=80 prio=10 | hi n=2 port=80 prio=1000", "hi!host gone:1"},
		{
			"a pod that the members want to be apart from", "", "4 4",
			"low n=2 min=1 app=noisy spread=host prio=10 | hi n=4 apart=noisy:host prio=1000", "hi gone:1",
		},
		{
			"pods that want to be apart from the members", "", "4 4",
			"low n=2 min=1 apart=train:host prio=10 spread=host | hi n=6 app=train prio=1000", "hi gone:2",
		},
		{
			"a pod that makes the spread uneven", "", "4 4",
			"full gpus=3 prio=2000 on=n1 ; low-0 like=hi prio=10 on=n0 ; low-1 like=hi prio=10 on=n0 | hi n=2 spread=host prio=1000", "all=4 gone:1",
		},
		{
			"a port and GPUs together", "", "2 2",
			"low n=2 min=1 port=80 prio=10 ; fill n=2 min=1 prio=10 | hi n=2 gpus=2 port=80 prio=1000", "hi!host gone:4",
		},
		{
			"a worker that follows its launcher", "", "4:::z0 4:::z1",
			"low n=2 min=1 port=80 prio=10 | hi-launcher gang=hi min=2 app=hi port=80 prio=1000 gpus=1 ; hi-worker gang=hi min=2 with=hi:host prio=1000",
			"hi-launcher hi-worker gone:1",
		},
		{"none, if the gang does not fit all the same", "", "4 4", "low n=2 min=1 port=80 prio=10 | hi n=3 port=80 prio=1000", "low=2 hi=0"},
		{"none of equal priority", "", "4 4", "low n=2 min=1 port=80 prio=10 | hi n=2 port=80 prio=10", "low=2 hi=0"},
		{"none for a gang that never preempts", "", "4 4", "low n=2 min=1 port=80 prio=10 | hi n=2 port=80 prio=1000 never", "low=2 hi=0"},
		{"none that a disruption budget keeps", "", "4 4", "low n=2 min=1 port=80 app=kept prio=10 ; budget kept 0 | hi n=2 port=80 prio=1000", "low=2 hi=0"},
		{"a gang goes as a whole", "", "4 4 4", "low n=3 port=80 prio=10 | hi n=2 port=80 prio=1000", "hi!host low=0 gone:3"},
	} {
		t.Run(s.name, func(t *testing.T) { synctest.Test(t, s.play) })
	}
}
