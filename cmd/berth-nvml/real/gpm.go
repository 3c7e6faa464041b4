//go:build cgo

package real

/*
#cgo LDFLAGS: -ldl
#define _GNU_SOURCE
#include <dlfcn.h>
#include <math.h>
#include <stddef.h>

// The arguments of nvmlGpmMetricsGet, version 1, as nvml.h lays them out. The
// driver fills in the first count entries; its own array is never longer.
struct metric {
	unsigned id;
	int code;
	double value;
	char *short_name, *long_name, *unit;
};
struct query {
	unsigned version, count;
	void *from, *to;
	struct metric metrics[512];
};

static void *find(const char *name) { return dlsym(RTLD_DEFAULT, name); }

// compare asks for n metrics of two samples. One that the driver does not give
// is NaN. One caller at a time.
static int compare(void *call, void *from, void *to, const int *ids, double *values, int n) {
	static struct query q;
	q.version = 1;
	q.count = n;
	q.from = from;
	q.to = to;
	for (int i = 0; i < n; i++) q.metrics[i] = (struct metric){.id = ids[i], .code = -1};
	int code = ((int (*)(struct query *))call)(&q);
	for (int i = 0; i < n; i++) values[i] = q.metrics[i].code ? NAN : q.metrics[i].value;
	return code;
}
#include <stdlib.h>
*/
import "C"

import (
	"reflect"
	"unsafe"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth.dev/berth/agent/nvml"
)

// most is the number of metrics in one question.
const most = 512

// sample is memory of the driver.
type sample struct {
	l      *Library
	s      gonvml.GpmSample
	handle unsafe.Pointer // of s
}

// Free frees the memory; a second call does nothing.
func (s *sample) Free() {
	if s.s != nil && s.l.need("nvmlGpmSampleFree") == nil {
		_ = s.l.api.GpmSampleFree(s.s) // nothing to be done about it
	}
	s.s, s.handle = nil, nil
}

func (d *device) GPMSupported() (bool, error) {
	v, err := call(d.l, d.h.GpmQueryDeviceSupport, "nvmlGpmQueryDeviceSupport")
	return v.IsSupportedDevice != 0, err
}

// GPMSample reads the counters of the GPU, or of one GPU instance of it.
func (d *device) GPMSample(gi int) (nvml.GPMSample, error) {
	take := "nvmlGpmSampleGet"
	if gi >= 0 {
		take = "nvmlGpmMigSampleGet"
	}
	for _, symbol := range []string{take, "nvmlGpmSampleFree"} {
		if err := d.l.need(symbol); err != nil {
			return nil, err
		}
	}
	s, err := call(d.l, d.l.api.GpmSampleAlloc, "nvmlGpmSampleAlloc")
	if err != nil {
		return nil, err
	}
	// go-nvml keeps the type to itself: a struct of one field, the pointer.
	out := &sample{l: d.l, s: s, handle: reflect.ValueOf(s).Field(0).UnsafePointer()}
	if gi >= 0 {
		err = check(d.h.GpmMigSampleGet(gi, s))
	} else {
		err = check(d.h.GpmSampleGet(s))
	}
	if err != nil {
		out.Free()
		return nil, err
	}
	return out, nil
}

// GPMMetrics compares two samples; ids are NVML_GPM_METRIC_ numbers.
//
// It calls the driver itself: go-nvml copies an array of 19 KB four times for
// each device, which is most of what a scrape of many MIG devices would cost.
func (l *Library) GPMMetrics(from, to nvml.GPMSample, ids []int) ([]float64, error) {
	a, ok1 := from.(*sample)
	b, ok2 := to.(*sample)
	if !ok1 || !ok2 || a.s == nil || b.s == nil || len(ids) == 0 || len(ids) > most {
		return nil, nvml.InvalidArgument
	}
	if err := l.need("nvmlGpmMetricsGet"); err != nil {
		return nil, err
	}
	l.gpm.Lock()
	defer l.gpm.Unlock()
	if l.compare == nil {
		name := C.CString("nvmlGpmMetricsGet")
		l.compare = C.find(name) // go-nvml has loaded the library for all to see
		C.free(unsafe.Pointer(name))
	}
	if l.compare == nil {
		return nil, nvml.FunctionNotFound
	}
	asked := make([]C.int, len(ids))
	for i, id := range ids {
		asked[i] = C.int(id)
	}
	values := make([]float64, len(ids))
	code := C.compare(l.compare, a.handle, b.handle, &asked[0], (*C.double)(&values[0]), C.int(len(ids)))
	return values, check(gonvml.Return(code))
}
