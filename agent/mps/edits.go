package mps

import (
	"path/filepath"
	"strconv"
	"strings"

	"berth.dev/berth/core/gpu"
)

// Share is what one container holds of one GPU.
type Share struct {
	MemoryBytes int64 // of the whole GPU
	Replicas    int   // shares that the GPU is divided into
	Held        int   // of them
}

// Mount is a folder of the host in a container, writable.
type Mount struct{ Host, Container string }

// Edits is what a container needs to be a client of the daemon.
type Edits struct {
	Env    map[string]string
	Mounts []Mount
}

// Where a container has the daemon's pipes: NVIDIA's plugin has them there too.
const containerRoot = "/mps"

// Edits returns what a container needs that holds shares, in the order in which it
// sees the GPUs. The limits are those of what it holds, rounded down, at least
// one percent of the threads. They hold for each client, which is each process.
func (m *Manager) Edits(shares []Share) Edits {
	percent := 100
	var memory []string
	for i, s := range shares {
		n := max(1, s.Replicas)
		held := min(max(1, s.Held), n)
		percent = min(percent, max(1, 100*held/n))
		memory = append(memory, strconv.Itoa(i)+"="+mebibytes(s.MemoryBytes*int64(held)/int64(n)))
	}
	pipe := filepath.Join(containerRoot, gpu.ResourceGPU, "pipe")
	return Edits{
		Env: map[string]string{
			"CUDA_MPS_PIPE_DIRECTORY":           pipe,
			"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE": strconv.Itoa(percent),
			"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT":  strings.Join(memory, ","),
		},
		Mounts: []Mount{{Host: m.pipe(), Container: pipe}, {Host: m.o.SHM, Container: "/dev/shm"}},
	}
}

func mebibytes(bytes int64) string { return strconv.FormatInt(bytes>>20, 10) + "M" }

func (m *Manager) pipe() string { return filepath.Join(m.o.Root, gpu.ResourceGPU, "pipe") }
func (m *Manager) logs() string { return filepath.Join(m.o.Root, gpu.ResourceGPU, "log") }
