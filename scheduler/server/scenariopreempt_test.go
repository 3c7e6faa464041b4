package server

import (
	"testing"
	"testing/synctest"
)

// TestPreemptionOfPeers plays what the tests of others say of preemption.
func TestPreemptionOfPeers(t *testing.T) {
	bubbles(t)
	for _, s := range preemptionOfPeers() {
		t.Run(s.name, func(t *testing.T) { synctest.Test(t, s.play) })
	}
}

func preemptionOfPeers() []scenario {
	const (
		pods    = kai + "preempt/preempt_test.go"
		gang    = kai + "preempt/preemptGang_test.go"
		elastic = kai + "preempt/preempt_elastic_test.go"
		cycles  = kai + "integration_tests/preempt/preempt_test.go"
		whole   = kai + "integration_tests/preempt/preemptGang_test.go"
		e2e     = volcano + "schedulingaction/preempt.go"
		evict   = volcano + "gangevict/gangevict.go"
		action  = volcanoA + "preempt/preempt_test.go"
	)
	return []scenario{
		// Pods.
		{"one goes, and not two that share a GPU", pods, "2", "a part=0.5 prio=50 | b part=0.5 prio=50 | c prio=50 | high", "high gone=c"},
		{"the one in the way goes", pods, "1", "low prio=50 | high", "high gone=low"},
		{"none goes for one of equal priority", pods, "1", "a | b", "b=0"},
		{"two go for one that needs both GPUs", pods, "2", "a prio=50 ; b prio=50 | high gpus=2", "high gone=a,b"},
		{"one of two goes where one is enough", pods, "4", "a gpus=2 prio=50 ; b gpus=2 prio=50 | high gpus=2", "high gone:1"},
		{"of two the smaller goes where with what is free it is enough", pods, "4", "a prio=50 ; b gpus=2 prio=50 | high gpus=2", "high gone=a"},
		{"the one of lower priority of two goes", pods, "2", "low prio=50 ; mid prio=75 | high", "high mid gone=low"},
		{"of two of equal priority one goes", pods, "2", "a prio=75 ; b prio=75 | high", "high gone:1"},
		{"a pod goes for one that is a little above it", pods, "1", "low prio=50 | mid prio=51", "mid gone=low"},
		{"none goes for one of lower priority", pods, "1", "high | low prio=50", "low=0"},
		{"none goes where the largest node is too small", cycles, "2 2", "a prio=50 ; b prio=50 ; c prio=50 | high gpus=3", "high=0"},
		{"two go for one that is free GPUs short by two", cycles, "4", "a prio=50 ; b prio=50 ; c prio=50 | high gpus=3", "high gone:2"},
		{"where no pod waits no pod goes", cycles, "4", "a prio=50 ; b prio=50 ; c", "all=3"},
		{"a pod of high priority starts beside one of low priority where there is room", e2e, "2", "low prio=50 | high", "low high"},
		{"none goes for a pod that preempts no pod", action, "1", "low prio=50 | high never", "high=0"},
		{"such a pod starts when there is room", action, "1", "low prio=50 | high never | ? high=0 | end low", "high"},
		{"none goes on a node where that would not be enough", action, "3 4", "a gpus=3 prio=50 on=n0 ; b gpus=4 prio=50 on=n1 | high gpus=4", "high gone=b"},
		{"none goes while GPUs are free elsewhere", action, "2 2", "a gpus=2 prio=50 on=n0 | high gpus=2", "high@n1"},
		{"of those on a node only those below go", action, "3", "low prio=50 ; same ; above prio=200 | high", "high gone=low"},
		{"a pod with a gate preempts no pod until it is removed", e2e, "4", "low n=4 min=1 prio=50 | high n=2 gated | ? low=4 | ungate high", "high low=2 gone:2"},
		{"one that wants to be apart from a pod on every node takes one's place", e2e, "3 3", "b1 app=low prio=50 on=n0 ; b2 app=low prio=50 on=n1 | high apart=low:host", "high gone:1"},
		{"the lowest of three goes", kueuePre, "6", "low gpus=2 prio=10 ; mid gpus=2 prio=20 ; high gpus=2 prio=30 | in gpus=2 prio=30", "in gone=low"},
		{"the two lowest go where one is not enough", kueuePre, "6", "low gpus=2 prio=10 ; mid gpus=2 prio=20 ; high gpus=2 prio=30 | in gpus=3 prio=30", "in gone=low,mid"},
		{"none goes for the lowest priority of all", kueuePre, "6", "low gpus=3 prio=10 ; mid gpus=3 prio=20 | in prio=10", "in=0"},
		{"none goes where those below do not have enough", kueuePre, "6", "low gpus=3 prio=10 ; mid gpus=3 prio=20 | in gpus=4 prio=20", "in=0"},
		{"what is free counts before any pod goes", kueuePre, "6", "low prio=10 ; mid prio=20 ; high gpus=3 prio=30 | in gpus=2 prio=30", "in gone=low"},
		{"the lowest stays where the next one is needed and enough", kueuePre, "6", "low prio=10 ; mid gpus=2 prio=20 ; high gpus=3 prio=30 | in gpus=2 prio=30", "in gone=mid"},
		{"the place of a pod that waits for victims is not taken by a lower one", kueueTAS, "2", "a gpus=2 prio=50 | high gpus=2 ; mid prio=75", "high mid=0 gone=a"},
		{"a pod of equal priority waits for those that run, and starts in turn", kueueTAS, "2", "a gpus=2 | b gpus=2 ; c | ? b=0 c=0 | end a | end b", "c"},
		{"a pod goes though the cluster has room, where it is in pieces", kueueTAS, "2 2", "a prio=50 on=n0 ; b prio=50 on=n1 | high gpus=2", "high gone:1"},
		{"only the lowest goes of those in pieces", kueueTAS, "2 2", "a prio=50 on=n0 ; b prio=75 on=n1 | high gpus=2", "high@n0 gone=a"},

		// Gangs that preempt.
		{"none goes for a gang that does not fit even so", gang, "1", "low prio=50 | g n=2", "g=0"},
		{"one goes for a gang that needs its GPU and a free one", gang, "2", "low prio=50 | g n=2", "g gone=low"},
		{"a large pod goes for a gang of small ones", whole, "2", "low gpus=2 prio=50 | g n=2", "g gone=low"},
		{"as many go as a gang needs beside what is free", whole, "3", "a prio=50 ; b prio=50 | g n=2", "g gone:1"},
		{"the rest of a gang preempts when its first pod runs", whole, "3", "a prio=50 ; b prio=50 ; g min=1 | h gang=g min=1", "g h gone:1"},
		{"a gang that is incomplete preempts no pod", e2e, "4", "low n=4 min=1 prio=50 | g min=2", "g=0 low"},
		{"none goes for a gang where free GPUs and those of lower priority are too few", e2e, "4", "low prio=50 ; mid n=2 prio=200 | g n=4", "g=0 low mid"},
		{"half of an elastic gang goes for a gang that needs half the cluster", e2e, "4", "low n=4 min=1 prio=50 | g n=2", "g low=2 gone:2"},
		{"a third gang takes the place of two, each above the one before", e2e, "4", "low n=4 min=1 prio=50 | mid n=2 prio=75 | ? low=2 mid gone:2 | g n=4", "g low=0 mid=0 gone:6"},
		{"an elastic gang of higher priority takes what it can", elastic, "2", "low gpus=2 prio=50 | g n=2 min=1", "g gone=low"},
		{"a member beyond its gang's minimum takes one of another gang's", elastic, "3", "low n=2 min=1 prio=50 | g n=2 min=1", "g low=1 gone:1"},
		{"a gang that must be in one rack preempts in one", evict, "1:r0 1:r0 1:r1 1:r1", "low n=4 min=2 prio=50 | g n=2 within=rack", "g g~rack low=2 gone:2"},
		{"none goes for a gang whose rack is too small", evict, "8:r0 8:r0 8:r1 8:r1", "low n=4 prio=50 | g n=5 gpus=5 within=rack", "g=0 low"},
		{"a gang that may use a zone preempts over racks", evict, "1:r0:z0 1:r0:z0 1:r1:z0 1:r1:z0", "low n=4 min=1 prio=50 | g n=3 within=zone", "g low=1 gone:3"},
		{"a gang that may use a zone is put into one of its racks", evict, "1:r0:z0 1:r0:z0 1:r1:z0 1:r1:z0", "low n=4 min=2 prio=50 | g n=2 within=zone", "g g~rack low=2 gone:2"},

		// Gangs that are preempted.
		{"a gang goes as a whole for one pod", gang, "4", "low n=2 gpus=2 prio=50 | high gpus=2", "high gone=low-0,low-1"},
		{"a gang of small pods goes as a whole", whole, "2", "low n=2 prio=50 | high", "high gone=low-0,low-1"},
		{"an elastic gang gives one pod", elastic, "2", "low n=2 min=1 prio=50 | high", "high low=1 gone:1"},
		{"an elastic gang gives two pods", elastic, "4", "low n=4 min=1 prio=50 | high gpus=2", "high low=2 gone:2"},
		{"an elastic gang goes as a whole where all its GPUs are needed", elastic, "2", "low n=2 min=1 prio=50 | high gpus=2", "high gone=low-0,low-1"},
		{"an elastic gang keeps its minimum where another pod can go", elastic, "3", "low n=2 min=1 prio=50 ; x prio=50 | high gpus=2", "high gone:2"},
		{"two elastic gangs give what a pod needs", elastic, "4", "a n=2 min=1 prio=50 ; b n=2 min=1 prio=50 | high gpus=2", "high gone:2"},
		{"all go where all GPUs are needed", elastic, "4", "x prio=50 ; low n=2 min=1 prio=50 ; y prio=50 | high gpus=4", "high gone:4"},
		{"pods of a gang go from the one node that is large enough", elastic, "2 1", "low n=2 min=1 prio=50 on=n0 | high gpus=2", "high@n0 gone:2"},
		{"what a gang has beyond its minimum goes first", evict, "1 1 1 1", "low n=4 min=2 prio=50 | g n=2", "g low=2 gone:2"},
		{"two gangs give what they have beyond their minimums, and none is broken", evict, "1 1 1 1", "a n=2 min=1 prio=50 ; b n=2 min=1 prio=50 | g n=2", "g a=1 b=1 gone:2"},
		{"one gang of two is broken, and the other untouched", evict, "1 1 1 1", "a n=2 prio=50 | b n=2 prio=50 | g n=2", "g all=4 gone:2"},
		{"two gangs are broken for a large one", evict, "1 1 1 1", "a n=2 prio=50 ; b n=2 prio=50 | g n=4", "g gone:4"},
		{"a gang is broken for a smaller one", evict, "1 1 1 1", "low n=4 prio=50 | g n=2", "g gone:4"},
		{"no gang goes for one of equal priority", evict, "1 1 1 1", "a n=4 | g n=2", "g=0 a"},
		{"no gang goes where not all of those in the way are below", evict, "1 1 1 1", "a n=2 prio=200 ; b n=2 prio=50 | g n=4", "g=0 a b"},
		{"of a gang with two roles a worker goes, as many as both need stay", evict, "1 1 1 1", "ps gang=v min=3 prio=75 ; w n=3 gang=v min=3 prio=50 | high", "high ps w=2 gone:1"},

		// Shares.
		{"a share goes for a larger one", kai + "preempt/preemptGpuMemory_test.go", "1", "low mem=9216 prio=50 | high mem=8448", "high gone=low"},
		{"of two shares the one of lower priority goes", kai + "preempt/preemptGpuMemory_test.go", "1", "a mem=4608 prio=50 ; b mem=7680 prio=49 | high mem=8448", "high a gone=b"},
		{"a whole GPU goes for a share", kai + "preempt/preemptGpuMemory_test.go", "1", "low prio=50 | high mem=7680", "high gone=low"},
		{"shares on two GPUs go for two members of a gang", kai + "preempt/preemptGpuMemory_test.go", "2", "a mem=10752 prio=50 ; b mem=12288 prio=50 | g n=2 mem=12288", "g gone=a,b"},
		{"no share goes for one of equal priority", kai + "preempt/preemptGpuMemory_test.go", "1", "a mem=9216 | b mem=7680", "b=0"},
		{"a share goes for one by memory, and not a whole GPU", kai + "integration_tests/preempt/preemptFractional_test.go", "2", "a prio=50 ; b mem=7680 prio=50 | high mem=9216", "high gone=b"},
		{"a share goes for a whole GPU, and not another whole one", kai + "integration_tests/preempt/preemptFractional_test.go", "2", "a prio=50 ; b part=0.5 prio=50 | high", "high gone=b"},
		{"a share goes for a larger part, and not a whole GPU", kai + "integration_tests/preempt/preemptFractional_test.go", "2", "a prio=50 ; b part=0.5 prio=50 | high part=0.6", "high gone=b"},
	}
}
