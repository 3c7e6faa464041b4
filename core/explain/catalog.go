package explain

import (
	"fmt"
	"slices"
	"strings"
)

// Entry is what is known of a cause, whatever workload it keeps waiting.
type Entry struct {
	Code  Code
	Title string // what it is, as a sentence without an end
	Proof string // where the cluster shows it
	Helps string // what a person can do
	Make  string // how to see it in `berth up`
}

// Find returns the entry of a code, written in any case and with or without "BERTH-".
func Find(code string) (Entry, bool) {
	want := Code(strings.ToUpper(strings.TrimSpace(code)))
	if !strings.HasPrefix(string(want), "BERTH-") {
		want = "BERTH-" + want
	}
	i := slices.IndexFunc(Catalog, func(e Entry) bool { return e.Code == want })
	if i < 0 {
		return Entry{}, false
	}
	return Catalog[i], true
}

// Page is the entry as `berth explain` prints it and docs/causes shows it, in Markdown.
func (e *Entry) Page() string {
	return fmt.Sprintf("# %s: %s\n\n**Shown by:** %s.\n\n**What helps:** %s.\n\n**Try it** in `berth up`: %s.\n", e.Code, e.Title, e.Proof, e.Helps, e.Make)
}

// Catalog are all causes, by code. A code keeps its meaning for ever.
var Catalog = []Entry{
	{CodeQuota, "A ResourceQuota of the namespace refuses the pod", "the event FailedCreate of the pod's owner, and `kubectl describe quota`", "stop something that counts against the quota, ask for less, or ask an administrator for a larger quota", "`kubectl create quota none --hard=requests.nvidia.com/gpu=0`, then create a Job that asks for a GPU"},
	{CodeInvalid, "The request is not valid, so no pod can be made of it", "the event FailedCreate of the pod's owner, with the field", "write GPUs as limits only, in whole numbers; ask for a share with nvidia.com/gpu-memory", "apply a Deployment whose container has a GPU as request, and no limit"},
	{CodeRefused, "A rule of the cluster refuses the pod: Pod Security, an admission policy, or a webhook", "the event FailedCreate of the pod's owner, which names the rule", "change what the rule names, or use a namespace with another level", "label a namespace pod-security.kubernetes.io/enforce=restricted, and create a Deployment in it"},
	{CodeStopped, "It is stopped, suspended, paused, or has no replicas", "spec.suspend, spec.replicas, or the annotation kubeflow-resource-stopped", "start it: the message has the command", "`kubectl create deployment d --image=x/y:1 --replicas=0`"},
	{CodeReference, "The ServiceAccount or the PriorityClass that it names does not exist", "the event FailedCreate of the pod's owner", "create it, or take the name out", "apply a Job with priorityClassName: nothing"},
	{CodeGate, "A scheduling gate holds the pod, so no scheduler looks at it", "spec.schedulingGates of the pod", "wait for the controller that set the gate, or remove it by hand", "apply a pod with schedulingGates: [{name: example.com/wait}]"},
	{CodeGang, "The pods of its gang start together, and do not all fit", "the sums of what the members ask for, and of what is free", "ask for fewer or smaller pods, wait, or add nodes", "apply a Job with six pods of eight GPUs each and the gang annotation"},
	{CodeScheduler, "No scheduler of the name that the pod has looks at it", "the pod has neither a condition PodScheduled nor an event", "set schedulerName to a scheduler that runs, or start that one", "apply a pod with schedulerName: nothing, and wait ten seconds"},
	{CodeNoGPUNode, "No node of the cluster offers a GPU", "status.capacity of all nodes", "add GPU nodes, or let a node pool grow", "start `berth up` with a fleet of nodes without GPUs"},
	{CodeNotOffered, "Nodes have GPUs, and their device plugin offers none", "status.allocatable is 0 where status.capacity is not", "find out why the device plugin does not run: its pod on that node, its log, the driver", "`berth sim break device-plugin NODE`"},
	{CodeHeld, "Other pods hold the GPUs", "`berth gpus`", "wait: the message says until when, if that is known; or stop an idle holder", "create as many pods as there are GPUs, and one more"},
	{CodeFragmented, "Enough GPUs are free, and not on one node", "the free GPUs of each node in the table", "ask for as many as one node has free, or use several pods", "fill half of each of two nodes, then ask for a whole one"},
	{CodeTooLarge, "It asks for more GPUs than any node that it may use has", "status.allocatable of nodes", "ask for less on a node, and use several pods", "ask for 100 nvidia.com/gpu"},
	{CodeResourceName, "No node offers a resource of that name, and nodes offer others", "status.capacity of nodes", "ask for a resource that nodes offer: the message names the nearest", "ask for nvidia.com/gpus: 1"},
	{CodeTaint, "The nodes that would do have a taint that it does not tolerate", "spec.taints of nodes, with key, value, and effect", "add the toleration that the table shows", "`kubectl taint nodes NODE team=a:NoSchedule` on all GPU nodes"},
	{CodeSelector, "No node has the label that its node selector or required affinity wants", "the labels of nodes beside the wanted one", "change the selector to a value that nodes have, or label a node", "use nodeSelector: {nvidia.com/gpu.product: Tesla-V99}"},
	{CodeSelectorFull, "Its node selector or affinity excludes the nodes that would do", "the labels of nodes beside the wanted one", "leave the selector out, or widen it", "select a small node by its name, and ask for more GPUs than it has"},
	{CodeCordoned, "The nodes that would do are cordoned", "spec.unschedulable of nodes", "uncordon them when their work is done", "`kubectl cordon NODE` on all GPU nodes"},
	{CodeNotReady, "The nodes that would do are not ready", "the condition Ready of nodes", "repair the kubelet or the node; `kubectl describe node` shows its conditions", "`berth sim break kubelet NODE`"},
	{CodeCPU, "CPU or memory is short where GPUs would do", "needed, free, and total of each node in the table", "ask for as much as is free beside the GPUs; nothing waits for GPUs here", "ask for 1000 CPU and a GPU"},
	{CodeOther, "Another resource is short: a host port, ephemeral storage, huge pages, the number of pods", "needed, free, and total of each node in the table", "change what the message names", "create two pods with the same hostPort and a node selector for one node"},
	{CodeClaim, "A PersistentVolumeClaim is missing, or has no volume", "`kubectl get pvc`, `kubectl get storageclass`", "create the claim, or name a StorageClass that exists in a new one", "apply a pod with a volume of a claim that does not exist"},
	{CodeVolumeZone, "A volume is out of reach, or in use where only one pod or node may use it", "spec.nodeAffinity of the PersistentVolume, and the pods that name the claim", "use another claim, stop the other pod, or copy the data to a volume that is made there", "bind a claim to a PersistentVolume of a zone without GPUs"},
	{CodePodAffinity, "Pod affinity or anti-affinity keeps it off the nodes that would do", "the pod that is near, or is not, in the table", "start or stop that pod, or change the term", "require podAffinity to a label that no pod has"},
	{CodeSpread, "A topology spread constraint allows no more pods where there is room", "the pods of each domain in the table", "use whenUnsatisfiable: ScheduleAnyway, or a larger maxSkew", "spread pods by host with maxSkew 1, and fill all nodes but one"},
	{CodeUnhealthy, "GPUs of the nodes that would do are unhealthy", "status.allocatable less than status.capacity, with the Xid where it is known", "see the node agent's log, and drain and reset or replace the GPU as its Xid demands", "`berth sim break xid-79 NODE/0`"},
	{CodeInit, "An init container asks for more than any node has free", "the requests of the init container", "ask for less in that init container", "give an init container a request of 1000 CPU"},
	{CodeClique, "Enough GPUs are free, and not in one NVLink clique", "the cliques of the node's inventory", "wait, or ask for as many as one clique has", "hold one GPU of each NVLink clique of a node"},
	{CodeNodeName, "The pod names a node that does not exist", "spec.nodeName, and `kubectl get nodes`", "take nodeName out and let a scheduler choose", "apply a pod with nodeName: nothing"},
	{CodeGPUMemory, "No GPU has that much memory", "the memory of GPUs in the inventory or in nvidia.com/gpu.memory", "ask for less memory, or for several GPUs", "ask for nvidia.com/gpu-memory: 500"},
	{CodePulling, "The image is being pulled", "the container's state and the event Pulling", "wait; pull large images before they are needed", "start `berth up` with slow pulls"},
	{CodeImage, "The image cannot be pulled", "the container waits with ErrImagePull or ImagePullBackOff", "correct the name or tag, or let the cluster into the registry", "`berth sim break image NODE`"},
	{CodeConfig, "A Secret or ConfigMap that a container names does not exist", "the container waits with CreateContainerConfigError", "create it in the namespace of the pod", "name a Secret that does not exist in envFrom"},
	{CodeCrash, "A container ends again and again, or cannot be made", "the container's last state, and `kubectl logs --previous`", "read its log; raise the memory limit if it was OOMKilled", "run a container with the command [\"false\"]"},
	{CodeFailed, "It ran and failed", "the condition Failed of the Job, and the exit code of the last container", "read its log, correct the cause, and create it again", "create a Job that runs [\"false\"] with backoffLimit 0"},
}
