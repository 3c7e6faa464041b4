package explain

// Reason is why a workload is ready or not: the reason of its condition Ready, in
// one CamelCase word that scripts may compare. The message beside it is for people.
type Reason string

// The reasons of condition Ready. Only Ready goes with status True.
const (
	// Ready: its pod is ready.
	Ready Reason = "Ready"
	// Starting: its pod is about to be made, or has a node and starts.
	Starting Reason = "Starting"
	// Pulling: its image is on the way to the node.
	Pulling Reason = "Pulling"
	// ImageTrouble: its image cannot be pulled, or its name cannot be read.
	ImageTrouble Reason = "ImageTrouble"
	// Queued: its pod fits on no node now, and waits.
	Queued Reason = "Queued"
	// NoSuchGPU: no node offers what it asks for, however long it waits.
	NoSuchGPU Reason = "NoSuchGPU"
	// NoSuchNode: no node can take it, however long it waits, for something other than
	// its GPUs, such as more CPU than any node has.
	NoSuchNode Reason = "NoSuchNode"
	// Quota: a ResourceQuota of its namespace refuses its pod.
	Quota Reason = "Quota"
	// MissingVolume: a volume claim that it names does not exist, or has no volume.
	MissingVolume Reason = "MissingVolume"
	// VolumeInUse: its volume is attached to another node.
	VolumeInUse Reason = "VolumeInUse"
	// MissingServiceAccount: the ServiceAccount that it names does not exist.
	MissingServiceAccount Reason = "MissingServiceAccount"
	// MissingPriorityClass: the PriorityClass that it names does not exist.
	MissingPriorityClass Reason = "MissingPriorityClass"
	// Refused: the API server refuses its pod or another of its objects, as Pod
	// Security or an admission webhook does, or a name is taken.
	Refused Reason = "Refused"
	// MissingConfig: a Secret or ConfigMap that it names does not exist.
	MissingConfig Reason = "MissingConfig"
	// Crashing: a container of it ends again and again, or cannot be made.
	Crashing Reason = "Crashing"
	// Restarting: its pod is replaced, as what it asks for has changed.
	Restarting Reason = "Restarting"
	// Stopped: it is stopped, by its user or for being idle.
	Stopped Reason = "Stopped"
	// Invalid: its pod cannot be created as it is written.
	Invalid Reason = "Invalid"
	// Terminating: it, or its pod, is being deleted.
	Terminating Reason = "Terminating"
)

// Reasons are all of them, in the order above.
var Reasons = []Reason{
	Ready, Starting, Pulling, ImageTrouble, Queued, NoSuchGPU, NoSuchNode, Quota, MissingVolume, VolumeInUse, MissingServiceAccount,
	MissingPriorityClass, Refused, MissingConfig, Crashing, Restarting, Stopped, Invalid, Terminating,
}

// The reasons of condition GPUQueued. Its status is True with Waiting only.
const (
	// QueuedWaiting: it waits for a node; the message is its place in line.
	QueuedWaiting = "Waiting"
	// QueuedBound: it has what it asks for; the message is the node.
	QueuedBound = "Bound"
	// QueuedNotAsked: it asks for no GPU; the message is the node, or "-".
	QueuedNotAsked = "NotAsked"
	// QueuedStopped: it is stopped and holds nothing; the message is "-".
	QueuedStopped = "Stopped"
	// QueuedChange: it runs as it was, and a change of it waits for room; the message
	// is the node, and what does not fit.
	QueuedChange = "Waits"
	// QueuedHeld: it stands in no line, as waiting alone would not help: Ready says
	// what would; the message is "-".
	QueuedHeld = "Held"
)
