//go:build cgo

package real

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"sync"
	"unsafe"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth.dev/berth/agent/nvml"
)

const libraryName = "libnvidia-ml.so.1"

// Options say where the driver is. The zero value is a driver installed on the
// system that the program runs on.
type Options struct {
	// DriverRoot is where this program finds the driver's files, such as /host or
	// /run/nvidia/driver; "" is "/", and the library is the one that the dynamic
	// linker finds.
	DriverRoot string
	// HostDriverRoot is the same folder as the container runtime sees it, which
	// reads the CDI specification; "" is "/".
	HostDriverRoot string
	// DevRoot is the folder that holds dev, here, and HostDevRoot on the host.
	// "" is as the driver root.
	DevRoot, HostDevRoot string
	// Hook is the path of nvidia-cdi-hook on the host; "" is /usr/bin/nvidia-cdi-hook.
	Hook string
	Log  io.Writer // of the CDI generator's warnings; nil is none
}

// Library is NVIDIA's library, loaded by Init. It implements nvml.Library and
// is safe for concurrent use, except for Init and Shutdown.
type Library struct {
	options Options
	host    host
	api     gonvml.Interface
	where   string // what Init loads: a path, or a name for the dynamic linker

	mu     sync.RWMutex
	lacks  map[string]error         // by symbol; nil is there
	uuids  map[gonvml.Device]string // of every handle that was asked for its UUID
	loaded bool

	gpm     sync.Mutex     // one question at a time
	compare unsafe.Pointer // nvmlGpmMetricsGet, once it was found
}

var _ nvml.Library = (*Library)(nil)

// New returns the library without loading it.
func New(o Options) *Library {
	l := &Library{options: o, lacks: map[string]error{}, uuids: map[gonvml.Device]string{}}
	l.look()
	return l
}

// look notes where the library is now. A driver that is installed later brings
// it where no driver's was before.
func (l *Library) look() {
	where := libraryName
	if root := filepath.Clean("/" + l.options.DriverRoot); root != "/" {
		where = findLibrary(root)
	}
	if where != l.where {
		l.where, l.api = where, gonvml.New(gonvml.WithLibraryPath(where))
	}
}

// findLibrary returns the library's path under a driver root, or a path in it
// that does not exist: one from elsewhere would be of another driver.
func findLibrary(root string) string {
	for _, dir := range []string{
		"usr/lib64", "usr/lib/x86_64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib64", "lib/x86_64-linux-gnu",
		"lib/aarch64-linux-gnu", "usr/local/nvidia/lib64", "home/kubernetes/bin/nvidia/lib64", "opt/nvidia/lib64", "usr/lib",
	} {
		if found, _ := filepath.Glob(filepath.Join(root, dir, libraryName)); len(found) > 0 {
			return found[0]
		}
	}
	return filepath.Join(root, "usr/lib64", libraryName)
}

// Init loads the library and connects to the driver. Its errors say what to do.
func (l *Library) Init() error {
	l.look()
	ret := l.api.Init()
	if ret == gonvml.SUCCESS {
		l.mu.Lock()
		l.loaded = true
		clear(l.lacks)
		l.mu.Unlock()
		return nil
	}
	err := nvml.Error(ret)
	switch err {
	case nvml.LibraryNotFound:
		return fmt.Errorf("%w: %s; install the NVIDIA driver on this node, or name the folder that holds it with --container-driver-root", err, l.whyNotLoaded())
	case nvml.DriverNotLoaded:
		return fmt.Errorf("%w: %s is there, the kernel module is not; run modprobe nvidia and look at dmesg", err, l.where)
	case nvml.LibRMVersionMismatch:
		return fmt.Errorf("%w (was the driver updated since the node started?)", err)
	case nvml.NoPermission:
		return fmt.Errorf("open the GPUs' device nodes: %w, with /dev/nvidiactl and /dev/nvidia0 in the container", err)
	default:
		return fmt.Errorf("start NVML: %w", err)
	}
}

// whyNotLoaded returns the dynamic linker's words.
func (l *Library) whyNotLoaded() string {
	lib := dl.New(l.where, dl.RTLD_LAZY)
	if err := lib.Open(); err != nil {
		return strings.TrimSpace(err.Error())
	}
	return errors.Join(lib.Close(), errors.New(l.where+" could not be loaded")).Error()
}

// Shutdown lets go of the driver.
func (l *Library) Shutdown() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.loaded {
		return nvml.Uninitialized
	}
	l.loaded = false
	clear(l.uuids)
	l.gpm.Lock()
	l.compare = nil
	l.gpm.Unlock()
	return check(l.api.Shutdown())
}

// need returns FunctionNotFound if the loaded library has none of the symbols,
// which are names of one call, and remembers the answer.
func (l *Library) need(symbols ...string) error {
	l.mu.RLock()
	err, known := l.lacks[symbols[0]]
	loaded := l.loaded
	l.mu.RUnlock()
	if !loaded {
		return nvml.Uninitialized
	}
	if known {
		return err
	}
	err = fmt.Errorf("%s: %w", symbols[0], nvml.FunctionNotFound)
	for _, s := range symbols {
		if l.api.Extensions().LookupSymbol(s) == nil {
			err = nil
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lacks[symbols[0]] = err
	return err
}

// check turns a return code into an error.
func check(ret gonvml.Return) error {
	if ret == gonvml.SUCCESS {
		return nil
	}
	return nvml.Error(ret)
}

// call makes a call of NVML if the library has one of its names.
func call[T any](l *Library, f func() (T, gonvml.Return), symbols ...string) (T, error) {
	if err := l.need(symbols...); err != nil {
		var none T
		return none, err
	}
	v, ret := f()
	return v, check(ret)
}

// DriverVersion returns the version of the kernel module, such as "570.124.06".
func (l *Library) DriverVersion() (string, error) {
	return call(l, l.api.SystemGetDriverVersion, "nvmlSystemGetDriverVersion")
}

// CUDAVersion returns 1000*major + 10*minor of the newest CUDA that the driver runs.
func (l *Library) CUDAVersion() (int, error) {
	if l.need("nvmlSystemGetCudaDriverVersion_v2") == nil {
		if v, ret := l.api.SystemGetCudaDriverVersion_v2(); ret == gonvml.SUCCESS {
			return v, nil
		}
	}
	return call(l, l.api.SystemGetCudaDriverVersion, "nvmlSystemGetCudaDriverVersion")
}

// DeviceCount returns the number of GPUs, lost ones among them.
func (l *Library) DeviceCount() (int, error) {
	return call(l, l.api.DeviceGetCount, "nvmlDeviceGetCount_v2", "nvmlDeviceGetCount")
}

// Device returns the GPU of an index.
func (l *Library) Device(index int) (nvml.Device, error) {
	h, err := call(l, func() (gonvml.Device, gonvml.Return) { return l.api.DeviceGetHandleByIndex(index) },
		"nvmlDeviceGetHandleByIndex_v2", "nvmlDeviceGetHandleByIndex")
	if err != nil {
		return nil, err
	}
	return &device{l: l, h: h}, nil
}

// Changes returns nil: NVML tells of no change.
func (l *Library) Changes() <-chan struct{} { return nil }

// Fake returns false.
func (l *Library) Fake() bool { return false }
