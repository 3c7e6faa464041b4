package smi_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"berth.dev/berth/core/gpu"
	"berth.dev/berth/fleet/smi"
	"berth.dev/berth/test/golden"
)

const mib = 1 << 20

var now = time.Date(2026, 11, 20, 9, 5, 7, 0, time.UTC)

func view(devices ...smi.Device) smi.View {
	return smi.View{Node: "gpu-node-1", Driver: "570.124.06", CUDA: "12.8", Now: now, Devices: devices}
}

func card(index int, product string, memoryMiB int64) gpu.GPU {
	digit := string(rune('0' + index))
	return gpu.GPU{
		Index: index, UUID: "GPU-" + strings.Repeat(digit, 8) + "-0000-5000-8000-000000000000", Product: product,
		MemoryBytes: memoryMiB * mib, BusID: "00000000:1" + digit + ":00.0", NUMANode: index / 2, Clique: 1, Healthy: true,
	}
}

func busy(index int) smi.Device {
	return smi.Device{
		GPU: card(index, "NVIDIA A100-SXM4-40GB", 40960),
		Reading: gpu.Reading{
			UtilizationRatio: 0.97, MemoryUtilization: 0.53, MemoryUsedBytes: 31004 * mib, MemoryReservedBytes: 573 * mib,
			TemperatureCelsius: 71, MemoryTempCelsius: 75, PowerWatts: 371.25, PowerLimitWatts: 400,
			SMClockMHz: 1365, MemoryClockMHz: 1215, PCIeRxBytesPerSecond: 2.4e9, PCIeTxBytesPerSecond: 0.8e9,
		},
		Processes: []smi.Process{{PID: 1234, Name: "python", MemoryBytes: 31000 * mib, UtilizationRatio: 0.97}},
	}
}

func idle(index int, product string, memoryMiB int64, memoryClock int) smi.Device {
	return smi.Device{GPU: card(index, product, memoryMiB), Reading: gpu.Reading{
		MemoryUsedBytes: 4 * mib, MemoryReservedBytes: 215 * mib, TemperatureCelsius: 31, MemoryTempCelsius: 35,
		PowerWatts: 9.1, PowerLimitWatts: 70, SMClockMHz: 240, MemoryClockMHz: memoryClock,
	}}
}

// cut is an A100 with a 3g.20gb and two 1g.5gb, of which the first is used.
func cut(index int) smi.Device {
	d := busy(index)
	d.GPU.MIGEnabled = true
	d.GPU.MIG = []gpu.MIGDevice{
		{UUID: "MIG-aaaaaaaa-0000-5000-8000-000000000000", Profile: "3g.20gb", GI: 1, Slices: 3, MemoryBytes: 19968 * mib},
		{UUID: "MIG-bbbbbbbb-0000-5000-8000-000000000000", Profile: "1g.5gb", Start: 4, GI: 11, Slices: 1, MemoryBytes: 4864 * mib},
		{UUID: "MIG-cccccccc-0000-5000-8000-000000000000", Profile: "1g.5gb", Start: 5, GI: 12, Slices: 1, MemoryBytes: 4864 * mib},
	}
	d.MIG = map[string]gpu.Reading{
		d.GPU.MIG[0].UUID: {MemoryUsedBytes: 13 * mib},
		d.GPU.MIG[1].UUID: {MemoryUsedBytes: 2061 * mib},
		d.GPU.MIG[2].UUID: {MemoryUsedBytes: 13 * mib},
	}
	d.Processes = []smi.Process{{
		PID: 4711, Name: "/opt/conda/envs/training/bin/python3.11", MemoryBytes: 2048 * mib, MIG: d.GPU.MIG[1].UUID,
	}}
	return d
}

// held is cut as a container sees it that holds the second MIG device.
func held() smi.Device {
	d := cut(0)
	d.GPU.MIG = d.GPU.MIG[1:2]
	return d
}

func mixed() smi.View {
	return view(busy(0), cut(1), idle(2, "Tesla T4", 15360, 405), idle(3, "NVIDIA GeForce RTX 4090", 24564, 405))
}

// run returns what a call prints and its exit code.
func run(v smi.View, args ...string) (stdout, stderr string, code int) {
	var out, errs bytes.Buffer
	code = smi.Run(context.Background(), func() smi.View { return v }, args, &out, &errs)
	return out.String(), errs.String(), code
}

func TestScreens(t *testing.T) {
	for _, c := range []struct {
		name   string // the golden file's too
		view   smi.View
		args   string
		framed bool // every line but the first and the last is 91 wide
	}{
		{"table of different GPUs", mixed(), "", true},
		{"table in a container with one MIG device", view(held()), "", true},
		{"table of a GPU with MIG on and no MIG device", view(func() smi.Device {
			d := cut(0)
			d.GPU.MIG, d.MIG, d.Processes = nil, nil, nil
			return d
		}()), "", true},
		{"list", mixed(), "-L", false},
		{"list in a container with one MIG device", view(held()), "--list-gpus", false},
		{"csv", mixed(), "--query-gpu=index,name,uuid,memory.total,memory.used,memory.free,utilization.gpu,temperature.gpu,power.draw,pstate,clocks.sm,mig.mode.current,compute_cap,fan.speed,ecc.mode.current,pci.bus,timestamp,count --format=csv", false},
		{"csv without header and units", mixed(), "--query-gpu=gpu_uuid,memory.used,power.limit --format=csv,noheader,nounits -i 0,2", false},
		{"compute apps", mixed(), "--query-compute-apps=gpu_uuid,pid,process_name,used_memory --format=csv", false},
		{"report", mixed(), "-q -i 1", false},
		{"report of memory and processes", mixed(), "-q -d memory,PIDS -i 0", false},
		{"dmon of all metrics", mixed(), "dmon -s pucvmet -c 1 -o DT", false},
		{"dmon of utilization", mixed(), "dmon -s u -c 1", false},
		{"pmon", mixed(), "pmon -s um -c 1", false},
		{"mig profiles", view(cut(0)), "mig -lgip", false},
		{"mig placements", view(busy(0)), "mig -lgipp", false},
		{"mig gpu instances", view(cut(0)), "mig -lgi", false},
		{"mig compute instances", view(cut(0)), "mig -lci", false},
		{"topology", view(busy(0), busy(1), busy(2), idle(3, "Tesla T4", 15360, 405)), "topo -m", false},
		{"version", mixed(), "--version", false},
		{"help", mixed(), "-h", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, stderr, code := run(c.view, strings.Fields(c.args)...)
			if code != 0 || stderr != "" {
				t.Fatalf("nvidia-smi %s: exit %d, stderr %q", c.args, code, stderr)
			}
			if c.framed {
				checkFrame(t, got)
			}
			golden.File(t, strings.ReplaceAll(c.name, " ", "-")+".txt", got)
		})
	}
}

// checkFrame checks the width of every line of a table, and its last line.
func checkFrame(t *testing.T, text string) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, l := range lines[1 : len(lines)-1] {
		if len(l) != 91 {
			t.Errorf("line %d is %d wide, want 91: %q", i+2, len(l), l)
		}
	}
	if last := lines[len(lines)-1]; !strings.HasPrefix(last, "Simulated by Berth: node gpu-node-1") {
		t.Errorf("the last line is %q, want that it is simulated", last)
	}
}

func TestTheFrameHoldsWithTheLargestNumbers(t *testing.T) {
	d := busy(0)
	d.GPU.Product, d.GPU.MemoryBytes, d.GPU.Index = "NVIDIA RTX PRO 6000 Blackwell Server Edition", 183359*mib, 127
	d.Reading.MemoryUsedBytes, d.Reading.PowerWatts, d.Reading.PowerLimitWatts = 183359*mib, 1200, 1200
	d.Reading.UtilizationRatio, d.Reading.TemperatureCelsius = 1, 105
	d.GPU.MIGEnabled = true
	d.GPU.MIG = []gpu.MIGDevice{{UUID: "MIG-1", Profile: "7g.180gb", GI: 14, MemoryBytes: 182000 * mib}}
	d.Processes = []smi.Process{{PID: 4194304, Type: "M+C", Name: strings.Repeat("x", 80), MemoryBytes: 183359 * mib}}
	out, _, _ := run(view(d))
	checkFrame(t, out)
}

func TestErrors(t *testing.T) {
	lost := busy(0)
	lost.GPU.Healthy, lost.Reading.Xid = false, 79
	for _, c := range []struct {
		name, args     string
		view           smi.View
		code           int
		stdout, stderr string // parts of it; "" is nothing at all
	}{
		{"no GPU in the container", "", view(), 6, "No devices were found\n", ""},
		{"a driver that does not answer", "-L", smi.View{DriverLost: true}, 9, "couldn't communicate with the NVIDIA driver", ""},
		{"no such GPU", "-i 9", view(busy(0)), 6, `No devices were found: "9"`, ""},
		{"a GPU off the bus", "", view(lost, busy(1)), 15, "Unable to determine the device handle for GPU0: 00000000:10:00.0: GPU is lost.", ""},
		{
			"an unknown field gets the nearest", "--query-gpu=index,memory.usd --format=csv", view(busy(0)), 2,
			"Field \"memory.usd\" is not a valid field to query.\n\n", `did you mean "memory.used"?`,
		},
		{
			"an unknown field of a process", "--query-compute-apps=pidd --format=csv", view(busy(0)), 2,
			"Field \"pidd\" is not a valid field to query.\n\n", `did you mean "pid"?`,
		},
		{"a query needs a format", "--query-gpu=index", view(busy(0)), 2, `"--format=" switch is missing.`, "--format=csv"},
		{"a format needs csv", "--query-gpu=index --format=noheader", view(busy(0)), 2, `"csv" is missing`, "--format=csv,noheader"},
		{"an unknown format", "--query-gpu=index --format=json", view(busy(0)), 2, `Format "json" is not valid.`, "use csv"},
		{"an unknown option gets the nearest", "--list-gpu", view(busy(0)), 2, "Invalid combination of input arguments.", "did you mean --list-gpus?"},
		{"an option without its value", "-i", view(busy(0)), 2, `Option "-i" is missing its value.`, ""},
		{"an option with a value too many", "-L=1", view(busy(0)), 2, `Option "-L" takes no value.`, ""},
		{"a loop of no seconds", "-l 0", view(busy(0)), 2, `Invalid value "0"`, ""},
		{"an unknown display type", "-q -d MEMRY", view(busy(0)), 2, `Display type "MEMRY" is not valid.`, "did you mean MEMORY?"},
		{"an unknown metric", "dmon -s x -c 1", view(busy(0)), 2, "Invalid metric", "each a letter"},
		{"an unknown option of -o", "dmon -c 1 -o X", view(busy(0)), 2, "Invalid option", "DT"},
		{"a count that is no number", "dmon -c many", view(busy(0)), 2, `Invalid value "many"`, ""},
		{"MIG of GPUs that have none on", "mig -lgip", view(busy(0)), 6, "No MIG-enabled devices found.", ""},
		{"MIG on and no instance", "mig -lgi", view(func() smi.Device { d := cut(0); d.GPU.MIG = nil; return d }()), 6, "No GPU instances found", ""},
		{"switching MIG on is refused", "-i 0 -mig 1", view(busy(0)), 3, "", "simulated by Berth: give the MIG profiles of each GPU in the fleet file"},
		{"cutting by MIG is refused", "mig -cgi 19,19 -C", view(busy(0)), 3, "", "-cgi would change a GPU, and the GPUs of node gpu-node-1 are simulated"},
		{"a reset is refused", "-r", view(busy(0)), 3, "", `"berth sim heal"`},
		{"a power limit is refused", "-pl=250", view(busy(0)), 3, "", `"berth up --fleet FILE"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			stdout, stderr, code := run(c.view, strings.Fields(c.args)...)
			if code != c.code {
				t.Errorf("nvidia-smi %s: exit %d, want %d", c.args, code, c.code)
			}
			for _, part := range []struct{ stream, got, want string }{{"stdout", stdout, c.stdout}, {"stderr", stderr, c.stderr}} {
				if !strings.Contains(part.got, part.want) || part.want == "" && part.got != "" {
					t.Errorf("nvidia-smi %s: %s %q, want %q in it", c.args, part.stream, part.got, part.want)
				}
			}
		})
	}
}

func TestEveryFieldHasAValueOnEveryGPU(t *testing.T) {
	for _, kind := range []string{"gpu", "compute-apps"} {
		list, _, _ := run(mixed(), "--help-query-"+kind)
		_, list, _ = strings.Cut(list, "\n\n")
		var fields []string
		for l := range strings.SplitSeq(strings.TrimSpace(list), "\n") {
			fields = append(fields, strings.Split(l, " or ")...)
		}
		out, stderr, code := run(mixed(), "--query-"+kind+"="+strings.Join(fields, ","), "--format=csv,noheader")
		if code != 0 {
			t.Fatalf("query of all %s fields: exit %d, %s%s", kind, code, out, stderr)
		}
		for l := range strings.SplitSeq(strings.TrimSpace(out), "\n") {
			cells := strings.Split(l, ", ")
			if len(cells) != len(fields) {
				t.Errorf("%d cells for %d fields: %s", len(cells), len(fields), l)
			}
			for i, cell := range cells {
				if cell == "" {
					t.Errorf("field %s is empty in %s", fields[i], l)
				}
			}
		}
	}
}

func TestLoopsWaitBetweenRounds(t *testing.T) {
	for _, c := range []struct {
		name, args string
		stop       time.Duration // when the context ends; 0 is never
		rounds     int           // calls of view
		took       time.Duration
		lines      int
	}{
		{"a count of one returns at once", "dmon -s u -c 1", 0, 1, 0, 3},
		{"a count of three waits twice", "dmon -s u -c 3 -d 2", 0, 3, 4 * time.Second, 5},
		{"dmon runs until it is ended", "dmon -s u", 2500 * time.Millisecond, 3, 2500 * time.Millisecond, 5},
		{"a query repeats without its header", "--query-gpu=index --format=csv -l 5", 12 * time.Second, 3, 12 * time.Second, 4},
		{"milliseconds", "-L -lms 200", 500 * time.Millisecond, 3, 500 * time.Millisecond, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx := t.Context()
				if c.stop > 0 {
					var cancel context.CancelFunc
					ctx, cancel = context.WithTimeout(ctx, c.stop)
					defer cancel()
				}
				start, rounds := time.Now(), 0
				var out bytes.Buffer
				code := smi.Run(ctx, func() smi.View { rounds++; return view(busy(0)) }, strings.Fields(c.args), &out, &out)
				if code != 0 || rounds != c.rounds || time.Since(start) != c.took || strings.Count(out.String(), "\n") != c.lines {
					t.Errorf("nvidia-smi %s: exit %d after %d rounds and %v, want %d and %v, and %d lines in:\n%s",
						c.args, code, rounds, time.Since(start), c.rounds, c.took, c.lines, out.String())
				}
			})
		})
	}
}

type closed struct{}

func (closed) Write([]byte) (int, error) { return 0, errors.New("closed") }

func TestALoopEndsWhenNobodyReads(t *testing.T) {
	code := smi.Run(context.Background(), func() smi.View { return mixed() }, []string{"-l", "1"}, closed{}, closed{})
	if code != 1 {
		t.Errorf("exit %d with a closed stdout, want 1", code)
	}
}

func FuzzRun(f *testing.F) {
	for _, s := range []string{"", "-L", "-q -d MEMORY", "--query-gpu=name --format=csv", "dmon -s pucvmet", "pmon", "mig -lgip", "topo -m", "-i 0,1", "-mig 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, args string) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		var out bytes.Buffer
		code := smi.Run(ctx, mixed, strings.Fields(args), &out, &out)
		if code != 0 && out.Len() == 0 {
			t.Errorf("nvidia-smi %s: exit %d without a word", args, code)
		}
	})
}
