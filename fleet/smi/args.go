package smi

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"berth.dev/berth/core/gpu"
)

// flag is what an option is called inside, and whether it takes a value.
type flag struct {
	name  string
	value bool
}

// flagSet holds the flags of a command by each of their spellings.
type flagSet map[string]flag

// options are the flags of one call by name, with their values.
type options map[string]string

func (o options) has(name string) bool { _, ok := o[name]; return ok }

// parse reads "-f", "-f value" and "--flag=value". A flag that would change a
// GPU is refused; an unknown one gets the nearest.
func (s flagSet) parse(c *call, args []string) (options, int) {
	o := options{}
	for i := 0; i < len(args); i++ {
		word, value, hasValue := strings.Cut(args[i], "=")
		f, ok := s[word]
		switch {
		case !ok && changes[word] != "":
			return nil, c.refuse(word, changes[word])
		case !ok:
			hint := ""
			if near := gpu.NearestWord(word, slices.Sorted(maps.Keys(s))); near != "" {
				hint = fmt.Sprintf("did you mean %s?", near)
			}
			return nil, c.usage(fmt.Sprintf("Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n%q is not an option.", args[i]), hint)
		case !f.value && hasValue:
			return nil, c.usage(fmt.Sprintf("Option %q takes no value.", word), "")
		case f.value && !hasValue:
			if i++; i == len(args) {
				return nil, c.usage(fmt.Sprintf("Option %q is missing its value.", word), "")
			}
			value = args[i]
		}
		o[f.name] = value
	}
	return o, exitOK
}

// interval is the time between rounds of -lms MILLISECONDS or, without it, of
// -l SECONDS; 0 is no loop.
func (o options) interval(c *call) (time.Duration, int) {
	for _, f := range []struct {
		name string
		unit time.Duration
	}{{"loop-ms", time.Millisecond}, {"loop", time.Second}} {
		if o.has(f.name) {
			n, code := o.number(c, f.name, 1, 1_000_000)
			return time.Duration(n) * f.unit, code
		}
	}
	return 0, exitOK
}

// number is the value of a flag as an integer from low to high.
func (o options) number(c *call, name string, low, high int) (int, int) {
	n, err := strconv.Atoi(o[name])
	if err != nil || n < low || n > high {
		return 0, c.usage(fmt.Sprintf("Invalid value %q: want a number from %d to %d.", o[name], low, high), "")
	}
	return n, exitOK
}

// pick keeps the GPUs that ids names, by index, UUID or bus ID with commas
// between; "" keeps all. It tells why there is nothing to show.
func pick(b *bytes.Buffer, v View, ids string) (View, int) {
	if v.DriverLost {
		b.WriteString("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. " +
			"Make sure that the latest NVIDIA driver is installed and running.\n\n")
		return v, exitDriver
	}
	if ids != "" {
		var kept []Device
		for id := range strings.SplitSeq(ids, ",") {
			i := slices.IndexFunc(v.Devices, func(d Device) bool {
				return id == strconv.Itoa(d.GPU.Index) || id == d.GPU.UUID || strings.EqualFold(id, d.GPU.BusID)
			})
			if i < 0 {
				fmt.Fprintf(b, "No devices were found: %q is not an index, UUID, or bus ID of a GPU here; nvidia-smi -L lists them.\n", id)
				return v, exitNone
			}
			kept = append(kept, v.Devices[i])
		}
		v.Devices = kept
	}
	if len(v.Devices) == 0 {
		b.WriteString("No devices were found\n")
		return v, exitNone
	}
	for _, d := range v.Devices {
		if d.Reading.Xid == 79 && !d.GPU.Healthy {
			fmt.Fprintf(b, "Unable to determine the device handle for GPU%d: %s: GPU is lost.  Reboot the system to recover this GPU\n", d.GPU.Index, d.GPU.BusID)
			return v, exitLost
		}
	}
	return v, exitOK
}
