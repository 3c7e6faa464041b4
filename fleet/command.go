package fleet

import (
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"berth.dev/berth/core/sharing"
)

// command reads a container's command where it is plain, and reports whether it
// is: sleep, echo, true, false, exit, date, hostname, nvidia-smi, tail -f
// /dev/null, a shell without anything to run, and sh -c of a script made of
// these (see script). Anything else would need the image.
func command(pod *v1.Pod, c *v1.Container, devices []sharing.Device) (Plan, bool) {
	words := expand(slices.Concat(c.Command, c.Args), pod, c)
	if typedInto(c) {
		return Plan{Forever: true, Idle: true}, true
	}
	if len(words) == 0 || len(c.Command) == 0 && !programs[path.Base(words[0])] {
		return Plan{}, false // arguments alone go to an entrypoint that is unknown
	}
	p := program{pod: pod, devices: devices, env: environment(pod, c)}
	switch name := path.Base(words[0]); {
	case shells[name] && len(words) == 1:
		return Plan{Idle: true}, true // nothing is typed into it
	case shells[name]:
		script, ok := shellScript(words[1:])
		if !ok || !p.script(script) {
			return Plan{}, false
		}
	case name == "nvidia-smi" && len(devices) == 0:
		return Plan{ExitCode: 128, Reason: "StartError", Idle: true, Message: `failed to create containerd task: exec: "nvidia-smi": ` +
			`executable file not found in $PATH: the container holds no GPU, so the NVIDIA runtime brings no nvidia-smi into it`}, true
	case !p.run(words):
		return Plan{}, false
	}
	return p.plan(), true
}

// shells are the programs that take -c and a script.
var shells = map[string]bool{"sh": true, "bash": true, "ash": true, "dash": true}

// programs are known by name even where an image's entrypoint could take them
// for arguments: official images run what they are given.
var programs = map[string]bool{
	"sleep": true, "echo": true, "true": true, "false": true, "nvidia-smi": true, "date": true, "hostname": true,
	"sh": true, "bash": true, "ash": true, "dash": true,
}

// shellScript returns the script in arguments such as -c SCRIPT, -lc SCRIPT and
// -e -c SCRIPT.
func shellScript(args []string) (string, bool) {
	for i, arg := range args {
		switch {
		case !strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "--"):
			return "", false
		case strings.HasSuffix(arg, "c"):
			if i+1 >= len(args) {
				return "", false
			}
			return args[i+1], true
		}
	}
	return "", false
}

// program follows plain commands and collects what they do and how long it
// takes.
type program struct {
	pod     *v1.Pod
	devices []sharing.Device
	env     map[string]string

	at      time.Duration // since the start
	status  int32         // exit code of the last command
	steps   []Step
	forever bool          // it never gets beyond at
	ended   bool          // by exit or exec
	every   time.Duration // steps repeat
	errexit bool          // set -e
}

// plan returns what was collected.
func (p *program) plan() Plan {
	plan := Plan{Forever: p.forever, Duration: p.at, ExitCode: p.status, Steps: p.steps, Every: p.every, Idle: true}
	if plan.Forever {
		plan.Duration, plan.ExitCode = 0, 0
	}
	return plan
}

// run follows one command and reports whether it is a plain one.
func (p *program) run(words []string) bool {
	args := words[1:]
	p.status = 0
	switch path.Base(words[0]) {
	case "true", ":", "cd":
	case "false":
		p.status = 1
	case "exec":
		if len(args) == 0 || !p.run(args) {
			return false
		}
		p.ended = true
	case "exit":
		return p.exit(args)
	case "set":
		p.errexit = p.errexit || len(args) > 0 && strings.HasPrefix(args[0], "-") && strings.Contains(args[0], "e")
	case "echo":
		for len(args) > 0 && (args[0] == "-n" || args[0] == "-e") {
			args = args[1:]
		}
		p.print(Step{Text: strings.Join(args, " ")})
	case "date":
		p.print(Step{Date: true})
		return len(args) == 0
	case "hostname":
		p.print(Step{Text: p.env["HOSTNAME"]})
		return len(args) == 0
	case "sleep":
		return p.sleep(args)
	case "tail":
		p.forever = true
		return len(args) == 2 && args[0] == "-f" && args[1] == "/dev/null"
	case "nvidia-smi":
		p.smi(args)
	default:
		return false
	}
	return true
}

func (p *program) print(s Step) {
	s.After = p.at
	p.steps = append(p.steps, s)
}

func (p *program) exit(args []string) bool {
	p.ended = true
	if len(args) == 0 {
		return true
	}
	code, err := strconv.ParseUint(args[0], 10, 8)
	p.status = int32(code)
	return err == nil && len(args) == 1
}

// forEver is a time from which on it does not matter how long a program sleeps.
const forEver = 100 * 365 * 24 * time.Hour

// sleep adds durations as coreutils' sleep does: 30, 0.5, 5m, 1h, 2d, infinity.
func (p *program) sleep(args []string) bool {
	for _, arg := range args {
		if arg == "infinity" || arg == "inf" {
			p.forever = true
			return true
		}
		unit := time.Second
		if n := len(arg) - 1; n > 0 {
			if u, ok := sleepUnits[arg[n]]; ok {
				unit, arg = u, arg[:n]
			}
		}
		n, err := strconv.ParseFloat(arg, 64)
		if err != nil || n < 0 || n > 1e9 {
			return false
		}
		if d := n * float64(unit); d > float64(forEver) || p.at+time.Duration(d) > forEver {
			p.forever = true
		} else {
			p.at += time.Duration(d)
		}
	}
	return len(args) > 0
}

var sleepUnits = map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}

// smi follows nvidia-smi. With -l or dmon without a count it prints forever.
func (p *program) smi(args []string) {
	if len(p.devices) == 0 {
		p.print(Step{Text: "sh: nvidia-smi: command not found"})
		p.status = 127
		return
	}
	once, every := smiLoop(args)
	p.print(Step{SMI: once})
	if every > 0 {
		p.forever, p.every = true, every
	}
}

// smiLoop takes the loop out of nvidia-smi's arguments: those for one round,
// and the time between rounds, 0 if there is one only.
func smiLoop(args []string) ([]string, time.Duration) {
	once, every := []string{}, time.Duration(0)
	for i := 0; i < len(args); i++ {
		name, value, joined := strings.Cut(args[i], "=")
		switch name {
		case "-l", "--loop":
			every = 5 * time.Second
			if !joined && i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				i++
				value = args[i]
			}
			if n, err := strconv.Atoi(value); err == nil && n > 0 {
				every = time.Duration(min(n, 1<<30)) * time.Second
			}
		default:
			once = append(once, args[i])
		}
	}
	if len(args) > 0 && (args[0] == "dmon" || args[0] == "pmon") && !slices.Contains(args, "-c") {
		return append(once, "-c", "1"), time.Second
	}
	return once, every
}
