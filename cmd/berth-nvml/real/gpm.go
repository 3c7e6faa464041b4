//go:build cgo

package real

import (
	"math"
	"runtime"

	gonvml "github.com/NVIDIA/go-nvml/pkg/nvml"

	"berth.dev/berth/agent/nvml"
)

// sample is memory of the driver; the garbage collector frees a forgotten one.
type sample struct {
	l *Library
	s gonvml.GpmSample
}

// Free gives the memory back; a second call does nothing.
func (s *sample) Free() {
	if s.s == nil {
		return
	}
	if s.l.need("nvmlGpmSampleFree") == nil {
		s.l.api.GpmSampleFree(s.s)
	}
	s.s = nil
	runtime.SetFinalizer(s, nil)
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
	out := &sample{l: d.l, s: s}
	if gi >= 0 {
		err = check(d.h.GpmMigSampleGet(gi, s))
	} else {
		err = check(d.h.GpmSampleGet(s))
	}
	if err != nil {
		out.Free()
		return nil, err
	}
	runtime.SetFinalizer(out, (*sample).Free)
	return out, nil
}

// GPMMetrics compares two samples; ids are NVML_GPM_METRIC_ numbers.
func (l *Library) GPMMetrics(from, to nvml.GPMSample, ids []int) ([]float64, error) {
	a, ok1 := from.(*sample)
	b, ok2 := to.(*sample)
	if !ok1 || !ok2 || a.s == nil || b.s == nil {
		return nil, nvml.InvalidArgument
	}
	if err := l.need("nvmlGpmMetricsGet"); err != nil {
		return nil, err
	}
	q := gonvml.GpmMetricsGetType{NumMetrics: uint32(len(ids)), Sample1: a.s, Sample2: b.s}
	if len(ids) > len(q.Metrics) {
		return nil, nvml.InvalidArgument
	}
	for i, id := range ids {
		q.Metrics[i].MetricId = uint32(id)
	}
	if err := check(l.api.GpmMetricsGet(&q)); err != nil {
		return nil, err
	}
	out := make([]float64, len(ids))
	for i := range ids {
		out[i] = math.NaN()
		if gonvml.Return(q.Metrics[i].NvmlReturn) == gonvml.SUCCESS {
			out[i] = q.Metrics[i].Value
		}
	}
	runtime.KeepAlive(a)
	runtime.KeepAlive(b)
	return out, nil
}
