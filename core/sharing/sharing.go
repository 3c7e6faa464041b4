// Package sharing says how the GPUs of one node are divided into devices, and
// which of them are held by whom. It does not choose the node; that is package
// placement.
package sharing

import "berth.dev/berth/core/gpu"

// Device is one thing the device plugin hands out.
type Device struct {
	ID          string // GPU or MIG UUID, or UUID "::" replica, or UUID "::mem-" size "-" serial
	Resource    string // such as "nvidia.com/gpu"
	UUID        string // of the GPU or MIG device
	GPU         int    // index of the GPU
	Profile     string // MIG profile; "" is a whole GPU or a share of one
	Replica     int
	MilliGPU    int64
	MemoryBytes int64
	Healthy     bool
	Clique      int
	NUMANode    int
}

// Holding is one device and who holds it.
type Holding struct {
	Owner  string
	Device Device
}

// Ledger says which devices of one node are held.
type Ledger struct{}

func Check(gpus []gpu.GPU, s gpu.Sharing) error                                  { return nil }
func Devices(gpus []gpu.GPU, s gpu.Sharing) ([]Device, error)                    { return nil, nil }
func Capacity(devs []Device) map[string]int64                                    { return nil }
func Allocatable(devs []Device) map[string]int64                                 { return nil }
func MemoryGiB(gpus []gpu.GPU, s gpu.Sharing) int64                              { return 0 }
func HealthyMemoryGiB(gpus []gpu.GPU, s gpu.Sharing) int64                       { return 0 }
func ParseID(id string) (uuid string, replica int, memoryGiB int64)              { return id, 0, 0 }
func NewLedger(gpus []gpu.GPU, s gpu.Sharing) (*Ledger, error)                   { return &Ledger{}, nil }
func (l *Ledger) Devices() []Device                                              { return nil }
func (l *Ledger) Take(owner, resource string, n int) ([]Device, error)           { return nil, nil }
func (l *Ledger) TakeMemory(owner string, gib int64) (Device, error)             { return Device{}, nil }
func (l *Ledger) Restore(owner string, ids []string) error                       { return nil }
func (l *Ledger) Release(owner string)                                           {}
func (l *Ledger) Held() []Holding                                                { return nil }
func (l *Ledger) Reset(gpus []gpu.GPU, s gpu.Sharing) (gone []string, err error) { return nil, nil }
