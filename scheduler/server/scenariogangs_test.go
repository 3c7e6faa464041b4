package server

import (
	"testing"
	"testing/synctest"
)

// Where scenarios come from: the projects' repositories, as of 2026, and folders in them.
const (
	kai      = "KAI-Scheduler pkg/scheduler/actions/"
	kaiE2E   = "KAI-Scheduler test/e2e/suites/"
	volcano  = "Volcano test/e2e/"
	volcanoA = "Volcano pkg/scheduler/actions/"
	cosched  = "scheduler-plugins test/integration/coscheduling_test.go"
	kueueTAS = "Kueue pkg/scheduler/scheduler_tas_test.go"
	kueuePre = "Kueue pkg/scheduler/preemption/preemption_test.go"
)

// TestGangsOfPeers plays what the tests of others say of gangs and where they go.
func TestGangsOfPeers(t *testing.T) {
	bubbles(t)
	for _, s := range gangsOfPeers() {
		t.Run(s.name, func(t *testing.T) { synctest.Test(t, s.play) })
	}
}

func gangsOfPeers() []scenario {
	const (
		gang     = kai + "allocate/allocateGang_test.go"
		elastic  = kai + "allocate/allocateElastic_test.go"
		topology = kai + "allocate/allocateTopology_test.go"
		affinity = kai + "allocate/interpod_affinity_test.go"
		plain    = kai + "allocate/allocate_test.go"
		base     = volcano + "schedulingbase/job_scheduling.go"
		allocate = volcano + "schedulingaction/allocate.go"
		filters  = volcano + "schedulingaction/predicates.go"
		hyper    = volcano + "hypernode/network_topology_test.go"
	)
	return []scenario{
		// All or none.
		{"a gang of two gets both GPUs of a node", gang, "2", "g n=2", "g@n0"},
		{"a gang is spread over two nodes where no node has room for all", gang, "1 1", "g n=2", "g g!host"},
		{"no member starts where one has no room", gang, "2", "g n=2 gpus=2", "g=0"},
		{"a gang starts when a pod that is in the way has ended", gang, "4", "a | g n=2 gpus=2 | ? g=0 | end a", "g"},
		{"a gang for which more than half of the GPUs are needed waits for a deployment to go", base, "4", "x n=3 min=1 | g n=3 | ? g=0 | end x", "g"},
		{"a second gang waits while the first has every GPU", base, "4", "a n=4 | b n=4", "a b=0"},
		{"a gang that fills the cluster follows another that did", base, "4", "a n=4 | b n=4 | ? b=0 | end a", "b"},
		{"no pod is evicted by the attempt of a gang of equal priority", base, "2 2", "a n=4 | b n=4 | b2 n=2", "a b=0 b2=0"},
		{"members with and without GPUs start together", base, "2", "g n=2 min=4 | ? g=0 | c n=2 gang=g min=4 gpus=0", "g c"},
		{"members without GPUs do not start where those with GPUs have no room", base, "1", "g n=2 min=4 ; c n=2 gang=g min=4 gpus=0", "g=0 c=0"},
		{"three elastic gangs start on a cluster that one could fill", base, "8", "x gpus=8 prio=200 | a n=8 min=2 ; b n=8 min=2 ; c n=8 min=2 | end x", "a>=2 b>=2 c>=2 all=8"},
		{"a gang with fewer pods than its minimum waits for the next", allocate, "4", "g min=2 | ? g=0 | h gang=g min=2", "g h"},
		{"a gang whose members may use no node waits", allocate, "4", "g n=2 on=elsewhere", "g=0"},
		{"a gang with room starts", allocate, "2 2", "g n=4", "g"},
		{"a gang that needs one GPU more than there are waits", allocate, "2 2", "g n=5", "g=0"},
		{"a pod with a gate waits until it is removed", allocate, "1", "a gated | ? a=0 | ungate a", "a"},
		{"a gang with gates waits until they are removed", allocate, "4", "g n=2 gated | ? g=0 | ungate g", "g"},
		{"a gang counts no pod that has a gate", allocate, "4", "a gang=g min=2 ; b gang=g min=2 gated | ? a=0 b=0 | ungate b", "a b"},
		{"where there are no nodes all wait, and start when one comes", plain, "", "a ; g n=2 | ? a=0 g=0 | add 4", "a g"},
		{"master and workers whose minimum the master breaks do not start", volcanoA + "allocate/allocate_test.go", "4", "m gang=g min=3 gpus=8 ; w n=2 gang=g min=3", "m=0 w=0"},
		{"members that fit start where the one that does not is beyond the minimum", volcanoA + "allocate/allocate_test.go", "4", "m gang=g min=2 gpus=8 ; w n=2 gang=g min=2", "m=0 w"},
		{"a node selector that no node has does not hold up another pod", volcanoA + "allocate/allocate_test.go", "4", "a on=elsewhere ; b", "a=0 b"},
		{"two jobs that fit together run together", volcanoA + "allocate/allocate_test.go", "4", "a n=2 ; b n=2", "a b"},
		{"a large job of high priority that fits nowhere does not block a small one", volcanoA + "allocate/allocate_test.go", "2", "big gpus=4 prio=200 ; small", "big=0 small"},

		// Pods that come in turn.
		{"of two gangs that come one after the other the first starts", cosched, "6", "a n=3 ; b n=4 gpus=2", "a b=0"},
		{"of two gangs that come in turn the one that fits starts", cosched, "6", "mix a n=3 & b n=4 gpus=2", "a b=0"},
		{"plain pods pass a gang that is incomplete", cosched, "6", "mix a n=3 min=4 & p n=2 min=1 gpus=2", "a=0 p"},
		{"a gang of higher priority starts before one that came first", cosched, "6", "x gpus=6 prio=200 | a n=3 gpus=2 prio=50 ; b n=3 | end x", "b a=0"},
		{"a gang of higher priority starts though its pods come in turn with another's", cosched, "6", "x gpus=6 prio=200 | mix a n=3 gpus=2 prio=50 & b n=3 | end x", "b a=0"},
		{"plain pods of higher priority start before a gang", cosched, "6", "x gpus=6 prio=200 | mix a n=3 prio=50 & p n=3 min=1 gpus=2 | end x", "p a=0"},
		{"two incomplete gangs are not in the way of a complete one", cosched, "6", "mix a n=3 & b n=2 min=4 gpus=2 & c n=2 min=4 gpus=2", "a b=0 c=0"},
		{"a gang that has not room does not keep a pod from starting", cosched, "4", "a n=6 gpus=4 | b gpus=2", "a=0 b"},
		{"members that have ended do not count", cosched, "8", "a n=5 min=6", "a=0"},

		// Elastic gangs.
		{"an elastic gang gets all its pods where they fit", elastic, "2", "g n=2 min=1", "g"},
		{"an elastic gang starts in part", elastic, "1", "g n=2 min=1", "g=1"},
		{"of an elastic gang the member of higher priority starts", elastic, "1", "x prio=300 | lo gang=g min=1 ; hi gang=g min=1 prio=200 | end x", "hi lo=0"},
		{"the rest of an elastic gang follows when there is room", elastic, "1", "g n=2 min=1 | ? g=1 | add 1", "g"},
		{"an elastic gang of which one pod runs grows by as many as fit", elastic, "2", "g min=1 | h n=2 gang=g min=1", "g h=1"},
		{"of two elastic gangs both start, and all GPUs are used", elastic, "5", "x gpus=5 prio=200 | a n=3 min=1 ; b n=3 min=1 | end x", "a>=2 b>=2 all=5"},
		{"of two elastic gangs that need more than there is both get a share", elastic, "5", "x gpus=5 prio=200 | a n=4 min=1 ; b n=4 min=1 | end x", "a>=2 b>=2 all=5"},
		{"an elastic gang shrinks and grows with its pods", kaiE2E + "allocate/elastic/allocate_elastic_specs.go", "2", "g n=3 min=1 | ? g=2 | end g-0", "g=2"},

		// Where they go.
		{"all members are in one rack that has room", topology, "1:r0 1:r0 1:r1 1:r1", "a on=n0 | g n=2 within=rack", "g g~rack"},
		{"a rack that the members may not use is passed over", topology, "1:r0 1:r0 1:r1 1:r1", "g n=2 within=rack rack=r1", "g g~rack"},
		{"a gang that fills a rack gets the empty one", topology, "2:r0 2:r0 2:r1 2:r1", "a on=n0 | g n=4 within=rack", "g g~rack"},
		{"a gang that fits beside others gets a rack in use", topology, "2:r0 2:r0", "a on=n0 | g n=3 within=rack", "g g~rack"},
		{"where no rack has room the gang waits, though the cluster has", topology, "2:r0 2:r0 2:r1 2:r1", "a on=n0 ; b on=n2 | g n=4 within=rack", "g=0"},
		{"the gang starts when its rack is free", topology, "2:r0 2:r0 2:r1 2:r1", "a on=n0 ; b on=n2 | g n=4 within=rack | ? g=0 | end b", "g g~rack"},
		{"all members are in one zone over two racks", topology, "1:r0:z0 1:r1:z0 1:r2:z1 1:r3:z1", "a on=n0 | g n=2 within=zone", "g g~zone g!host"},
		{"a gang that asks for nothing is put together all the same", topology, "2:r0 2:r0", "a on=n0 | g n=2", "g@n1"},
		{"a gang that asks for nothing starts apart where it does not fit together", topology, "2:r0 2:r1", "a on=n0 ; b on=n1 | g n=2", "g g!host"},
		{"a gang that asks for nothing goes to one rack where one has room", topology, "2:r0 2:r1 2:r1", "a on=n0 ; b on=n1 ; c on=n2 | d on=n0 | g n=2", "g g~rack"},
		{"of two racks with room the one in use is taken", topology, "8:r0 8:r1", "a on=n1 | g n=2 within=rack", "g@n1"},
		{"a gang on one node gets the node that has room", kueueTAS, "2 4", "g n=3 within=node", "g@n1"},
		{"a gang that fits on no node waits, and starts on one that comes", kueueTAS, "2 2", "g n=3 within=node | ? g=0 | add 4", "g@n2"},
		{"a gang in a rack is put beside pods that are there", kueueTAS, "2:r0 2:r0", "a on=n0 | g n=3 within=rack", "g g~rack"},
		{"a gang in a rack waits while pods outside of gangs fill it", kueueTAS, "2:r0 2:r0", "a on=n0 ; b on=n1 | g n=3 within=rack | ? g=0 | end a", "g"},
		{"nodes of which each has room for some take a gang that asks for nothing", kueueTAS, "2:r0 2:r0 2:r1", "a on=n0 ; b on=n1 ; c on=n2 | g n=3", "g g!host"},
		{"two gangs in racks get a rack each", kueueTAS, "2:r0 2:r0 2:r1 2:r1", "a n=3 within=rack ; b n=3 within=rack", "a~rack b~rack all=6"},
		{"a gang whose members need a node that is tainted waits", kueueTAS, "2", "taint n0 | g n=2 | ? g=0 | add 2", "g@n1"},
		{"a rack is left for another when it is too full", hyper, "2:r0 2:r0 2:r1 2:r1", "x on=n0 ; y gpus=2 on=n1 | g n=3 within=rack", "g g~rack"},
		{"where every rack is too small all members wait", hyper, "2:r0 2:r1", "g n=3 within=rack", "g=0"},
		{"a zone takes a gang that none of its racks has room for", hyper, "2:r0:z0 2:r1:z0 2:r2:z1", "g n=4 within=zone", "g g~zone"},
		{"where every zone is too small all members wait", hyper, "2:r0:z0 2:r1:z0 2:r2:z1", "g n=5 within=zone", "g=0"},
		{"a member that replaces one goes to the rack of the others", hyper, "2:r0 2:r0 2:r1 2:r1", "g n=3 within=rack | end g-1 | h gang=g min=3 within=rack", "g>=2 h g~rack"},
		{"the smallest domain is chosen where any would do", hyper, "2:r0 2:r0 4:r1", "g n=4", "g@n2"},
		{"a gang goes to the node of the first pod that it fits beside", base, "8 8", "base on=n1 | g n=3", "g@n1"},
		{"a pod goes where fewest GPUs are free", plain, "4 4", "a on=n1 | b", "b@n1"},

		// What filters know.
		{"members with one host port are on nodes of their own", filters, "4 4", "g n=2 port=80", "g g!host"},
		{"an elastic gang with one host port has as many members as there are nodes", filters, "4 4", "g n=3 min=1 port=80", "g=2 g!host"},
		{"members go to the node that they select", filters, "4 4", "g n=2 on=n1", "g@n1"},
		{"members follow a pod to its node", filters, "4 4 4", "x app=x on=n2 | g n=2 with=x:host", "g@n2"},
		{"members that want to be together are on one node", filters, "2 4", "g n=4 app=g with=g:host", "g@n1"},
		{"members that want to be apart are on nodes of their own", filters, "4 4", "g n=2 app=g apart=g:host", "g g!host"},
		{"a gang of which two would have to be together waits", filters, "4 4", "g n=3 app=g apart=g:host", "g=0"},
		{"a tainted node is not used", filters, "4 4", "taint n0 | g n=4", "g@n1"},
		{"a gang for which untainted nodes are too few waits", filters, "4 4", "taint n0 | g n=6", "g=0"},
		{"a tainted node is used by those who tolerate it", filters, "4 4", "taint n0 | g n=6 tolerates", "g"},
		{"a pod goes to a zone for one pod and off its node for the same", affinity, "2:r:z0 2:r:z0", "db app=db on=n1 | a with=db:zone apart=db:host", "a@n0"},
		{"the pod waits where every node of the zone has such a pod", affinity, "2:r:z0 2:r:z0 2:r:z1", "d1 app=db on=n0 ; d2 app=db on=n1 | a with=db:zone apart=db:host", "a=0"},
		{"the pod waits where the zone is full", affinity, "1:r:z0 1:r:z0 1:r:z1", "d1 app=db on=n0 ; d2 app=db on=n1 | a with=db:zone | ? a=0 | end d1", "a@n0"},
	}
}
