package explain_test

import (
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/explain"
	"berth.dev/berth/core/quota"
)

// rows: NB-37 NB-38 NB-43 NB-44 NB-46 NB-65

var (
	oneGPU = []explain.Amount{{Resource: "nvidia.com/gpu", Count: 1}}
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// unplaced is a pod that the scheduler has refused.
func unplaced(message string) *explain.Pod {
	return &explain.Pod{Name: "nb-0", Conditions: []explain.Condition{{Type: "PodScheduled", Status: "False", Reason: "Unschedulable", Message: message}}}
}

// placed is a pod on node n1, with its volumes and network, and a container.
func placed(c explain.Container) *explain.Pod {
	c.Name, c.Image = "nb", "x/y:1"
	return &explain.Pod{Name: "nb-0", Node: "n1", Containers: []explain.Container{c}, Conditions: []explain.Condition{
		{Type: "PodReadyToStartContainers", Status: "True"}, {Type: "Ready", Status: "False", Reason: "ContainersNotReady"},
	}}
}

func refusal(text string) *explain.Refusal { return &explain.Refusal{Message: text} }

const madeNo = "create Pod nb-0 in StatefulSet nb failed error: "

func TestJudge(t *testing.T) {
	running := placed(explain.Container{Running: true})
	running.Conditions[1] = explain.Condition{Type: "Ready", Status: "True"}
	mounting := placed(explain.Container{Waiting: "ContainerCreating"})
	mounting.Conditions[0].Status = "False"
	attached := *mounting
	attached.Troubles = []explain.Refusal{{Reason: "FailedAttachVolume", Message: `Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) b-0`}}
	secret := *mounting
	secret.Troubles = []explain.Refusal{{Reason: "FailedMount", Message: `MountVolume.SetUp failed for volume "token" : secret "s" not found`}}
	initial := placed(explain.Container{Waiting: "PodInitializing"})
	initial.Containers = append([]explain.Container{{Name: "copy", Init: true, Running: true}}, initial.Containers...)
	initialized := placed(explain.Container{Waiting: "PodInitializing"})
	initialized.Containers = append([]explain.Container{{Name: "copy", Init: true, Ended: true}}, initialized.Containers...)

	for _, test := range []struct {
		name   string
		facts  explain.Facts
		want   string // reason: message
		queued string // status reason: message
	}{
		{
			"before there is a pod, it starts",
			explain.Facts{GPUs: oneGPU},
			"Starting: its pod is being made and placed", "True Waiting: to be placed",
		},
		{
			"without GPUs it stands in no line",
			explain.Facts{},
			"Starting: its pod is being made and placed", "False NotAsked: -",
		},
		{
			"a pod that nobody has looked at is told of as none",
			explain.Facts{GPUs: oneGPU, Pod: &explain.Pod{}},
			"Starting: its pod is being made and placed", "True Waiting: to be placed",
		},
		{
			"a quota that is full",
			explain.Facts{GPUs: oneGPU, Rivals: explain.Rivals{Here: "a (1), b (1)"}, Refusal: refusal(madeNo +
				`pods "nb-0" is forbidden: exceeded quota: gpu-quota, requested: requests.nvidia.com/gpu=1, used: requests.nvidia.com/gpu=2, limited: requests.nvidia.com/gpu=2`)},
			"Quota: quota gpu-quota of namespace ns allows 2 of requests.nvidia.com/gpu, 2 are used, and this asks for 1; held here by a (1), b (1); stop another workload, ask for less, or ask for a larger quota",
			"False Held: -",
		},
		{
			"a quota of several resources tells of the first that is over",
			explain.Facts{Refusal: refusal(
				`pods "nb-0" is forbidden: exceeded quota: q, requested: limits.cpu=2,pods=1, used: limits.cpu=7,pods=9, limited: limits.cpu=8,pods=9`)},
			"Quota: quota q of namespace ns allows 8 of limits.cpu, 7 are used, and this asks for 2; stop another workload, ask for less, or ask for a larger quota", "",
		},
		{
			"a quota that wants to be told",
			explain.Facts{Refusal: refusal(madeNo + `pods "nb-0" is forbidden: failed quota: q: must specify limits.cpu for: nb; limits.memory for: nb`)},
			"Quota: quota q requires a value in every container, and one has none: must specify limits.cpu for: nb; limits.memory for: nb; add it", "",
		},
		{
			"a service account that is missing",
			explain.Facts{Refusal: refusal(madeNo + `pods "nb-0" is forbidden: error looking up service account ns/default-editor: serviceaccount "default-editor" not found`)},
			"MissingServiceAccount: service account default-editor does not exist in namespace ns; create it (kubectl create serviceaccount default-editor -n ns), or take serviceAccountName out", "",
		},
		{
			"a priority class that is missing",
			explain.Facts{Refusal: refusal(madeNo + `pods "nb-0" is forbidden: no PriorityClass with name high was found`)},
			"MissingPriorityClass: priority class high does not exist; name one of kubectl get priorityclasses, or take priorityClassName out", "",
		},
		{
			"Pod Security",
			explain.Facts{Refusal: refusal(madeNo + `pods "nb-0" is forbidden: violates PodSecurity "restricted:latest": hostPath volumes (volume "host")`)},
			`Refused: namespace ns takes only pods of Pod Security level restricted, and this pod does not meet it: hostPath volumes (volume "host"); change that, or ask for a namespace of another level`, "",
		},
		{
			"a GPU request without a limit",
			explain.Facts{Refusal: refusal(madeNo + `Pod "nb-0" is invalid: spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources`)},
			"Invalid: a GPU has a request and no limit; write the limit, and the request follows: spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources", "",
		},
		{
			"a GPU request that is not the limit",
			explain.Facts{Refusal: refusal(`StatefulSet.apps "nb" is invalid: spec.template.spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2`)},
			`Invalid: a GPU request differs from its limit; write the limit only: spec.template.spec.containers[0].resources.requests: Invalid value: "1": must be equal to nvidia.com/gpu limit of 2`, "",
		},
		{
			"a webhook",
			explain.Facts{Refusal: refusal(madeNo + `admission webhook "policy.example.com" denied the request: no notebooks on Fridays`)},
			`Refused: a rule of this cluster refuses its pod: admission webhook "policy.example.com" denied the request: no notebooks on Fridays`, "",
		},
		{
			"any other refusal is told as it is",
			explain.Facts{Refusal: refusal(madeNo + `pods "nb-0" is forbidden: because`)},
			"Refused: the API server refuses its pod: because", "",
		},
		{
			"its pod cannot be created",
			explain.Facts{Invalid: "spec.template.spec has no containers; a notebook needs one", GPUs: oneGPU},
			"Invalid: spec.template.spec has no containers; a notebook needs one", "False Held: -",
		},
		{
			"a volume claim that is missing",
			explain.Facts{GPUs: oneGPU, Pod: unplaced(`0/3 nodes are available: persistentvolumeclaim "home" not found. preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.`)},
			"MissingVolume: volume claim home does not exist in namespace ns; create it", "False Held: -",
		},
		{
			"a volume claim without a volume",
			explain.Facts{Claims: []string{"a", "b"}, Pod: unplaced("0/3 nodes are available: pod has unbound immediate PersistentVolumeClaims.")},
			"MissingVolume: its volume claim (a, b) has no volume yet; kubectl describe pvc -n ns says why", "False Held: -",
		},
		{
			"it waits for others",
			explain.Facts{
				GPUs: oneGPU, Place: explain.Place{At: 2, Of: 3, Resource: "nvidia.com/gpu"}, Rivals: explain.Rivals{Here: "a (2)", Elsewhere: 6},
				Verdict: verdict(8, at(explain.CheckGPUs, explain.Waits, "nvidia.com/gpu")),
				Pod:     unplaced("0/3 nodes are available: 1 Insufficient nvidia.com/gpu, 2 node(s) had untolerated taint(s). preemption: 0/3 nodes are available"),
			},
			"Queued: waits for 1 nvidia.com/gpu; of 8 that nodes offer it, no node has that many free; 2nd of 3 that wait for nvidia.com/gpu; held by a (2), and 6 by workloads of other namespaces",
			"True Waiting: 2nd of 3 that wait for nvidia.com/gpu",
		},
		{
			"it is preempted",
			explain.Facts{GPUs: oneGPU, Pod: &explain.Pod{Name: "nb-0", Node: "n1", Deleting: true, Conditions: []explain.Condition{
				{Type: "DisruptionTarget", Status: "True", Reason: "PreemptionByScheduler", Message: "default-scheduler: preempting to accommodate a higher priority pod, d/high of priority 9"},
			}}},
			"Restarting: preempted (default-scheduler: preempting to accommodate a higher priority pod, d/high of priority 9); it waits in line again when its pod has ended, and its volumes are kept",
			"False Bound: n1",
		},
		{
			"its pod is evicted to return quota",
			explain.Facts{GPUs: oneGPU, Pod: &explain.Pod{Name: "nb-0", Node: "n1", Deleting: true, Conditions: []explain.Condition{
				{Type: "DisruptionTarget", Status: "True", Reason: quota.ReasonReclaimed, Message: (&quota.Reclaim{From: "vision", By: "speech"}).Message("default-scheduler")},
			}}},
			"Restarting: evicted (default-scheduler: evicted to return quota: queue speech takes back nominal quota that queue vision has borrowed; priorities do not count between queues); it waits in line again when its pod has ended, and its volumes are kept",
			"False Bound: n1",
		},
		{
			"a volume in another zone keeps it from what is free",
			explain.Facts{
				GPUs: oneGPU, Claims: []string{"home"}, Place: explain.Place{At: 1, Of: 1, Resource: "nvidia.com/gpu"},
				Verdict: verdict(32, at(explain.CheckGPUs, explain.Waits, "nvidia.com/gpu")),
				Pod: unplaced("0/4 nodes are available: 1 Insufficient nvidia.com/gpu, 1 node(s) had no available volume zone, 2 node(s) didn't match PersistentVolume's node affinity. " +
					"preemption: 0/4 nodes are available: 4 Preemption is not helpful for scheduling."),
			},
			"Queued: waits for 1 nvidia.com/gpu; 3 nodes are unable to attach its volume (home), so free GPUs there cannot be used; the only one that waits for nvidia.com/gpu",
			"",
		},
		{
			"no node offers it",
			explain.Facts{GPUs: oneGPU, Verdict: verdict(0, at(explain.CheckOffered, explain.Never, "nvidia.com/gpu"), at(explain.CheckOffered, explain.Never, "nvidia.com/gpu"), at(explain.CheckOffered, explain.Never, "nvidia.com/gpu")), Pod: unplaced("0/3 nodes are available")},
			"NoSuchGPU: no node offers nvidia.com/gpu (there are 3); ask for what berth nodes lists, or add a node that has it", "",
		},
		{
			"the device plugin is gone",
			explain.Facts{GPUs: oneGPU, Verdict: verdict(0, at(explain.CheckClosed, explain.Mends, "device plugin down")), Pod: unplaced("0/3 nodes are available")},
			"NoSuchGPU: 1 node has nvidia.com/gpu, but none is allocatable; check the device plugin (kubectl get pods -A | grep device-plugin)", "",
		},
		{
			"a label that no node has",
			explain.Facts{
				GPUs: oneGPU, Pod: unplaced("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector"),
				Verdict: near(verdict(0, at(explain.CheckSelector, explain.Never, "gpu-model=Tesla-V100")), "nvidia.com/gpu.product=Tesla-V100-SXM2-16GB"),
			},
			"NoSuchGPU: no node has the label gpu-model=Tesla-V100; the nearest is nvidia.com/gpu.product=Tesla-V100-SXM2-16GB; change nodeSelector, or label a node", "",
		},
		{
			"a label that nodes have with other values",
			explain.Facts{
				GPUs: oneGPU, Pod: unplaced("0/3 nodes are available: 3 node(s) didn't match Pod's node affinity/selector"),
				Verdict: near(verdict(0, at(explain.CheckSelector, explain.Never, "gpu-model=v100")), "", "a100", "t4"),
			},
			"NoSuchGPU: no node has the label gpu-model=v100; nodes have a100, t4; change nodeSelector, or label a node", "",
		},
		{
			"taints keep it off",
			explain.Facts{
				GPUs: oneGPU, Pod: unplaced("0/3 nodes are available"), Verdict: verdict(0, at(explain.CheckTaint, explain.Never, "gpu=yes:NoSchedule")),
			},
			"NoSuchGPU: the nodes that offer nvidia.com/gpu have taints that it does not tolerate: gpu=yes:NoSchedule; add a toleration", "",
		},
		{
			"a volume that one pod at a time may use",
			explain.Facts{
				GPUs: oneGPU, Claims: []string{"data", "home"}, InUse: "volume claim data is used by notebook b",
				Pod: unplaced("0/3 nodes are available: 3 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode."),
			},
			"VolumeInUse: volume claim data is used by notebook b, and only one pod may use it at a time (ReadWriteOncePod); stop that one, or use another claim",
			"False Held: -",
		},
		{
			"such a volume that nobody is known to use",
			explain.Facts{
				Claims: []string{"data", "home"},
				Pod:    unplaced("0/3 nodes are available: 3 node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode."),
			},
			"VolumeInUse: its volume (data, home) is used by another pod, and only one pod may use it at a time (ReadWriteOncePod); stop that one, or use another claim", "",
		},
		{
			"without GPUs it waits for room",
			explain.Facts{Pod: unplaced("0/3 nodes are available: 3 Insufficient cpu.")},
			"Queued: waits for room; 0/3 nodes are available: 3 Insufficient cpu", "False NotAsked: -",
		},
		{
			"volumes first", explain.Facts{GPUs: oneGPU, Pod: mounting}, "Starting: node n1 prepares its volumes and network", "False Bound: n1",
		},
		{
			"a volume that another node has",
			explain.Facts{GPUs: oneGPU, Claims: []string{"home"}, Pod: &attached},
			`VolumeInUse: its volume (home) is attached to another node; stop what uses it there: Multi-Attach error for volume "pvc-1" Volume is already used by pod(s) b-0`, "",
		},
		{
			"a secret that a volume needs",
			explain.Facts{Pod: &secret},
			`MissingConfig: Secret s, which one of its volumes uses, does not exist in namespace ns; create it`, "",
		},
		{
			"an image on its way",
			explain.Facts{GPUs: oneGPU, Pod: placed(explain.Container{Waiting: "ContainerCreating"})},
			"Pulling: image x/y:1 is being pulled on node n1", "",
		},
		{
			"an init container runs", explain.Facts{Pod: initial}, "Starting: init container copy runs on node n1", "False NotAsked: n1",
		},
		{
			"an image on its way after the init containers", explain.Facts{Pod: initialized}, "Pulling: image x/y:1 is being pulled on node n1", "",
		},
		{
			"an image that is not there",
			explain.Facts{Pod: placed(explain.Container{Waiting: "ImagePullBackOff", Message: "Back-off pulling image"})},
			"ImageTrouble: image x/y:1 cannot be pulled on node n1: Back-off pulling image; correct its name, or see that the registry lets this cluster in", "",
		},
		{
			"a name that is none", explain.Facts{Pod: placed(explain.Container{Waiting: "InvalidImageName"})}, "ImageTrouble: invalid image name x/y:1; correct it", "",
		},
		{
			"it crashes",
			explain.Facts{Pod: placed(explain.Container{Waiting: "CrashLoopBackOff", Restarts: 5, ExitCode: 1})},
			"Crashing: container nb has ended 5 times with exit code 1, and is started again after a pause; see kubectl logs -n ns nb-0 -c nb --previous", "",
		},
		{
			"it has too little memory",
			explain.Facts{Pod: placed(explain.Container{Waiting: "CrashLoopBackOff", Restarts: 1, ExitCode: 137, OutOfMemory: true})},
			"Crashing: container nb has ended once for lack of memory (raise its memory limit), and is started again after a pause; see kubectl logs -n ns nb-0 -c nb --previous", "",
		},
		{
			"a container that cannot be made",
			explain.Facts{Pod: placed(explain.Container{Waiting: "CreateContainerConfigError", Message: `configmap "c" not found`})},
			"MissingConfig: ConfigMap c does not exist in namespace ns; create it", "",
		},
		{
			"it has ended",
			explain.Facts{Pod: placed(explain.Container{Ended: true})},
			"Crashing: container nb has ended with exit code 0, and is started again; see kubectl logs -n ns nb-0 -c nb", "",
		},
		{
			"it runs and does not answer",
			explain.Facts{Pod: placed(explain.Container{Running: true})},
			"Starting: runs on node n1, and does not answer as ready yet", "",
		},
		{"it is ready", explain.Facts{GPUs: oneGPU, Pod: running}, "Ready: on node n1", "False Bound: n1"},
		{
			"a change waits while it runs",
			explain.Facts{GPUs: oneGPU, Pod: running, Waits: "no node has 2 nvidia.com/gpu"},
			"Ready: on node n1", "False Waits: n1; change waits: no node has 2 nvidia.com/gpu",
		},
		{"it restarts", explain.Facts{GPUs: oneGPU, Pod: running, Change: "GPU count 1 to 2"}, "Restarting: restarting: GPU count 1 to 2", "False Bound: n1"},
		{
			"its pod is taken away",
			explain.Facts{GPUs: oneGPU, Pod: &explain.Pod{Node: "n1", Deleting: true}},
			"Restarting: its pod is terminating, and will be replaced", "",
		},
		{
			"its pod has failed",
			explain.Facts{Pod: &explain.Pod{Node: "n1", Failed: "Evicted: node was low on memory"}},
			"Crashing: its pod has failed, and a new one is created: Evicted: node was low on memory", "",
		},
		{
			"it is being stopped",
			explain.Facts{Stopped: true, GPUs: oneGPU, Pod: running},
			"Terminating: its pod is terminating, and frees its resources when it is gone", "False Stopped: -",
		},
		{
			"it is stopped",
			explain.Facts{Stopped: true, StoppedFor: "stopped by its user", GPUs: oneGPU},
			"Stopped: stopped by its user", "False Stopped: -",
		},
		{
			"a stopped one is not refused",
			explain.Facts{Stopped: true, Refusal: refusal("x"), StoppedFor: "stopped: idle for 2h", Claims: []string{"home"}},
			"Stopped: stopped: idle for 2h", "",
		},
		{
			"a name that another has",
			explain.Facts{Taken: "a Service named nb is not of this notebook", GPUs: oneGPU},
			"Refused: a Service named nb is not of this notebook", "False Held: -",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.facts.Namespace, test.facts.Name = "ns", "nb"
			v := explain.Judge(&test.facts)
			if got := string(v.Reason) + ": " + v.Message; got != test.want {
				t.Errorf("says\n%q, want\n%q", got, test.want)
			}
			if got := v.Queued.Status + " " + v.Queued.Reason + ": " + v.Queued.Message; test.queued != "" && got != test.queued {
				t.Errorf("GPUQueued is\n%q, want\n%q", got, test.queued)
			}
			if strings.Contains(v.Message, "\n") || v.Message == "" {
				t.Errorf("message %q is not one line", v.Message)
			}
		})
	}
}

// FuzzJudge: whatever texts others write, there is one line, a known reason and no
// panic.
func FuzzJudge(f *testing.F) {
	f.Add(madeNo+`pods "nb-0" is forbidden: exceeded quota: q, requested: a=1, used: a=2, limited: a=2`, "0/1 nodes are available: 1 Insufficient cpu.")
	f.Add(`exceeded quota: `, `persistentvolumeclaim "`)
	f.Add(`serviceaccount "not found`, "no PriorityClass with name ")
	f.Fuzz(func(t *testing.T, refused, said string) {
		for _, facts := range []explain.Facts{
			{Refusal: refusal(refused)},
			{Pod: unplaced(said), GPUs: oneGPU},
			{Pod: placed(explain.Container{Waiting: said, Message: refused})},
		} {
			v := explain.Judge(&facts)
			known := false
			for _, r := range explain.Reasons {
				known = known || r == v.Reason
			}
			if !known || v.Message == "" {
				t.Errorf("Judge(%+v) is %+v", facts, v)
			}
		}
	})
}

// at is a node with one gap.
func at(check explain.Check, remedy explain.Remedy, subject string) explain.NodeGaps {
	return explain.NodeGaps{Node: "n", Gaps: []explain.Gap{{Check: check, Remedy: remedy, Subject: subject}}}
}

// verdict is that on nodes, for one GPU.
func verdict(total int64, nodes ...explain.NodeGaps) *explain.Verdict {
	return &explain.Verdict{Nodes: nodes, Causes: explain.Causes(nodes), Asks: []explain.Amount{{Resource: "nvidia.com/gpu", Count: 1}}, Total: total}
}

func near(v *explain.Verdict, label string, offers ...string) *explain.Verdict {
	v.Near, v.Offers = label, offers
	return v
}
