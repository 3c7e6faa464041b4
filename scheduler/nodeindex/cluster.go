package nodeindex

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	fwk "k8s.io/kube-scheduler/framework"

	"berth.dev/berth/scheduler/runtimes"
	"berth.dev/berth/scheduler/state"
)

// NewPodInfo makes what NodeInfos keep of a pod. The type is kube-scheduler's own,
// which plugins must not import.
type NewPodInfo = func(*v1.Pod) (fwk.PodInfo, error)

// Maker makes a plugin for one profile.
type Maker = func(context.Context, runtime.Object, fwk.Handle) (fwk.Plugin, error)

// Profile is what the plugins of one profile of the scheduler work with.
type Profile struct {
	Handle  fwk.Handle
	Cluster *Cluster
}

// Cluster is what the plugins of one scheduler share, in all of its profiles: what
// they have chosen, and how they see the nodes.
type Cluster struct {
	*state.State
	Index   index
	Refused *RefusedRoom
	// NewPodInfo lets plans ask the framework's filters; nil is that they do not. It
	// must be set before the scheduler runs.
	NewPodInfo NewPodInfo
	// Deleted reports whether the watch has seen that a pod is gone; nil is that nothing
	// is known. It is never behind the pod's delete event.
	Deleted func(*v1.Pod) bool
	Times   *runtimes.Times
}

// NewCluster returns a Cluster with an empty State.
func NewCluster() *Cluster {
	return &Cluster{State: state.NewState(), Refused: newRefusedRoom(), Times: runtimes.New()}
}

// Nodes lists the nodes of the scheduler's snapshot.
func (p *Profile) Nodes() fwk.NodeInfoLister { return p.Handle.SnapshotSharedLister().NodeInfos() }
