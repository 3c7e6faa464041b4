package shell

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"time"

	"berth.dev/berth/internal/pause"
)

// maxScreen bounds what one round of watch prints, in bytes.
const maxScreen = 1 << 20

// watchCommand runs a command line again and again until its context ends, as
// watch -n SECONDS does. Each round is written at once: the screen is cleared
// and a header says what is repeated.
func watchCommand(p *process) int {
	every, header, args := 2*time.Second, true, p.args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch flag := args[0]; {
		case flag == "-n" || flag == "--interval":
			if len(args) < 2 {
				return p.fail(1, "%s needs a number of seconds", flag)
			}
			args = args[1:]
			d, err := seconds(args[0])
			if err != nil {
				return p.fail(1, "invalid interval %q", args[0])
			}
			every = d
		case strings.HasPrefix(flag, "-n"):
			d, err := seconds(strings.TrimPrefix(flag, "-n"))
			if err != nil {
				return p.fail(1, "invalid interval %q", flag)
			}
			every = d
		case flag == "-t" || flag == "--no-title":
			header = false
		case flag == "-d", flag == "-c", flag == "-x", flag == "--color", flag == "--differences":
		default:
			return p.fail(1, "%s is not supported in a simulated container", flag)
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return p.fail(1, "usage: watch [-n SECONDS] COMMAND")
	}
	every = max(every, 100*time.Millisecond) // as watch has it
	text := strings.Join(args, " ")
	for {
		var out bytes.Buffer
		out.WriteString("\x1b[H\x1b[2J")
		if header {
			fmt.Fprintf(&out, "Every %.1fs: %s    %s: %s\n\n", every.Seconds(), text, p.sh.m.Hostname, p.sh.m.Now().UTC().Format(time.ANSIC))
		}
		q := *p
		ctx, cancel := context.WithCancel(p.ctx)
		both := &locked{mu: new(sync.Mutex), w: &bounded{w: &out, left: maxScreen, full: cancel}}
		q.ctx, q.stdout, q.stderr = ctx, both, both
		p.sh.fork().eval(&q, text)
		cancel()
		if _, err := p.stdout.Write(out.Bytes()); err != nil {
			return 1
		}
		if !pause.For(p.ctx, every) {
			return exitInterrupted
		}
	}
}

// dateCommand prints the time: the usual form, or +FORMAT with the common
// conversions of strftime.
func dateCommand(p *process) int {
	now, format := p.sh.m.Now().UTC(), "%a %b %e %H:%M:%S UTC %Y"
	for _, a := range p.args {
		switch {
		case strings.HasPrefix(a, "+"):
			format = a[1:]
		case a == "-Iseconds" || a == "--iso-8601=seconds":
			format = "%Y-%m-%dT%H:%M:%S+00:00"
		case a == "-u" || a == "--utc":
		default:
			return p.fail(1, "%s is not supported in a simulated container", a)
		}
	}
	layouts := map[string]string{
		"%a": "Mon", "%A": "Monday", "%b": "Jan", "%B": "January", "%d": "02", "%e": "_2", "%H": "15", "%I": "03",
		"%j": "002", "%m": "01", "%M": "04", "%N": "000000000", "%p": "PM", "%S": "05", "%y": "06", "%Y": "2006",
		"%F": "2006-01-02", "%T": "15:04:05", "%D": "01/02/06", "%R": "15:04", "%Z": "UTC", "%z": "-0700", "%c": time.ANSIC,
	}
	unknown := ""
	text := regexp.MustCompile(`%.`).ReplaceAllStringFunc(format, func(c string) string {
		switch c {
		case "%%":
			return "%"
		case "%n":
			return "\n"
		case "%s":
			return fmt.Sprint(now.Unix())
		case "%N":
			return fmt.Sprintf("%09d", now.Nanosecond())
		}
		layout, ok := layouts[c]
		if !ok {
			unknown = c
		}
		return now.Format(layout)
	})
	if unknown != "" {
		return p.fail(1, "%s is not supported in a simulated container", unknown)
	}
	return p.line(text)
}

// nvccCommand prints the compiler's release, taken from the image's tag, else
// from the driver.
func nvccCommand(p *process) int {
	if len(p.args) != 1 || p.args[0] != "--version" && p.args[0] != "-V" {
		return p.fail(1, "a simulated container compiles nothing; only --version works")
	}
	release := ""
	if m := regexp.MustCompile(`(?:[:-]|cuda)(\d+\.\d+)[.\w]*-.*devel`).FindStringSubmatch(p.sh.m.Image); m != nil {
		release = m[1]
	} else if p.sh.m.View != nil {
		release = p.sh.m.View().CUDA
	}
	p.line("nvcc: NVIDIA (R) Cuda compiler driver (simulated by Berth)")
	return p.line("Cuda compilation tools, release " + release)
}
