package serving

import "time"

// Service is what the user asks for.
type Service struct {
	Namespace, Name string
	Model           *Model       // nil is containers of the user's own
	Transformer     *Transformer // nil is none: requests go to the model
	Scale           Scale
	Rollout         Rollout
	Stopped         bool // by the user: no replicas until it is started again
	Concurrency     int  // most requests that a replica has at once; 0 is any number
	GPUs            bool // its replicas hold GPUs
	Unprotected     bool // any number of its replicas may be evicted at once, as the user says
	// Canary is the share of the requests, in percent, that a new revision gets beside the one before; nil is that it takes its place.
	Canary       *int
	CanaryLimits CanaryLimits
}

// Model is a model and what serves it.
type Model struct {
	Format, Version string // Version "" is any
	Runtime         string // by name; "" is chosen
	Protocol        string // v1, v2, grpc-v1, or grpc-v2
	StorageURI      string // "" is that the server finds the model itself
}

// Runtime says which models a server can serve.
type Runtime struct {
	Name       string
	Cluster    bool // of the whole cluster, and not of one namespace
	Disabled   bool
	MultiNode  bool   // has workers on several nodes
	MultiModel bool   // serves many models, as ModelMesh does
	ServerType string // such as tensorflow-serving
	Created    time.Time
	Formats    []Format
	Protocols  []string // none is v1
}

// Format is one format that a runtime serves.
type Format struct {
	Name, Version string // Version "" is any
	Auto          bool   // the runtime may be chosen for it
	Priority      int    // of those that may be chosen, the highest is; 0 is none
}

// Rollout is how a new revision takes the place of the one before.
type Rollout string

// The rollouts.
const (
	// RolloutWait starts a replica of the new revision before one of the old ends. While no GPU is free for it, it waits in
	// the queue and the old revision answers.
	RolloutWait Rollout = "wait"
	// RolloutStopFirst does the same while a GPU is free, and else ends an old replica first, so its GPU is used: fewer
	// replicas answer until the new one is ready, and with one replica, none.
	RolloutStopFirst Rollout = "stop-first"
)

// Rollouts returns the names of the rollouts.
func Rollouts() []string { return []string{string(RolloutWait), string(RolloutStopFirst)} }
