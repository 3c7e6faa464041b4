package fleet

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/api/resource"

	"berth.dev/berth/agent/fakegpu"
	"berth.dev/berth/api"
	"berth.dev/berth/core/gpu"
	"berth.dev/berth/core/sharing"
	"berth.dev/berth/kube/request"
)

// simulation is the annotation berth.dev/simulate as it applies to one
// container. Nil means that it says nothing of it.
type simulation struct {
	duration       *time.Duration
	exitCode       *int32
	utilization    *float64
	curve          []fakegpu.Point // its MemoryBytes is -1 where the point does not say
	memory         *int64
	cpuMilli       *int64
	logs           []string
	hasLogs        bool
	jupyter        *string
	stop           *time.Duration
	loading, takes *time.Duration // of a model server: until it is ready, and for an answer
	fails          *float64       // the part of the answers of a model server that are errors
	slots          *int           // requests that a model server works on at once
}

// mostSlots is the most that a model server works on at once.
const mostSlots = 1 << 16

// simulationFields are the fields that the annotation may have.
var simulationFields = []string{"duration", "exitCode", "utilization", "memory", "cpu", "logs", "jupyter", "stop", "load", "takes", "fails", "slots", "containers"}

// parseSimulation reads the annotation berth.dev/simulate, JSON or YAML, for the
// container of that name: its own part over the part for all. The error names
// the field.
func parseSimulation(note, container string) (simulation, error) {
	var doc yaml.Node
	if err := yaml.Unmarshal([]byte(note), &doc); err != nil {
		return simulation{}, fmt.Errorf("annotation %s: %w; write a mapping such as {duration: 90s, exitCode: 0}", api.AnnotationSimulate, err)
	}
	var s simulation
	if len(doc.Content) == 0 {
		return s, nil
	}
	if err := s.read(doc.Content[0], "", container); err != nil {
		return simulation{}, fmt.Errorf("annotation %s: %w", api.AnnotationSimulate, err)
	}
	return s, nil
}

// read takes the fields of a mapping. path is "" at the top, where containers
// may stand.
func (s *simulation) read(n *yaml.Node, path, container string) error {
	if n.Kind != yaml.MappingNode {
		return fmt.Errorf("%sis not a mapping; write one such as {duration: 90s, exitCode: 0}", spaced(path))
	}
	var own *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i].Value, n.Content[i+1]
		if key == "containers" && path == "" {
			var err error
			if own, err = member(value, container); err != nil {
				return err
			}
			continue
		}
		if err := s.field(key, value); err != nil {
			return fmt.Errorf("%s%s: %w", dotted(path), key, err)
		}
	}
	if own == nil {
		return nil
	}
	return s.read(own, "containers."+container, container)
}

// member returns the part of the mapping containers for one container, or nil.
// The parts of others are checked too, so a mistake shows at once.
func member(n *yaml.Node, container string) (*yaml.Node, error) {
	if n.Kind != yaml.MappingNode {
		return nil, fmt.Errorf("containers: is not a mapping of container names")
	}
	var own *yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == container {
			own = n.Content[i+1]
			continue
		}
		var other simulation
		if err := other.read(n.Content[i+1], "containers."+n.Content[i].Value, ""); err != nil {
			return nil, err
		}
	}
	return own, nil
}

// failing reads which part of the answers are errors.
func (s *simulation) failing(value *yaml.Node) error {
	part, err := strconv.ParseFloat(value.Value, 64)
	if err != nil || !(part >= 0 && part <= 1) {
		return fmt.Errorf("%q is not a part of the answers; write a number from 0 to 1", value.Value)
	}
	s.fails = &part
	return nil
}

func (s *simulation) field(key string, value *yaml.Node) error {
	switch key {
	case "load", "takes":
		d, err := time.ParseDuration(value.Value)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration; write one such as 20s or 150ms", value.Value)
		}
		if key == "load" {
			s.loading = &d
		} else {
			s.takes = &d
		}
	case "fails":
		return s.failing(value)
	case "slots":
		n, err := strconv.Atoi(value.Value)
		if err != nil || n < 0 || n > mostSlots {
			return fmt.Errorf("%q is not a number of requests; write one from 0 to %d", value.Value, mostSlots)
		}
		s.slots = &n
	case "duration":
		d, err := time.ParseDuration(value.Value)
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a duration; write one such as 90s or 1h30m", value.Value)
		}
		s.duration = &d
	case "stop":
		d, err := time.ParseDuration(value.Value)
		if value.Value == "grace" {
			d, err = math.MaxInt64, nil
		}
		if err != nil || d < 0 {
			return fmt.Errorf("%q is not a time to stop; write a duration such as 20s, or grace", value.Value)
		}
		s.stop = &d
	case "exitCode":
		code, err := strconv.ParseInt(value.Value, 10, 32)
		if err != nil || code < 0 || code > 255 {
			return fmt.Errorf("%q is not an exit code; write a number from 0 to 255", value.Value)
		}
		s.exitCode = new(int32(code))
	case "utilization":
		return s.load(value)
	case "memory":
		bytes, err := memory(value)
		s.memory = &bytes
		return err
	case "cpu":
		q, err := resource.ParseQuantity(value.Value)
		if err != nil || q.Sign() < 0 {
			return fmt.Errorf("%q is not an amount of CPU; write one such as 2 or 500m", value.Value)
		}
		s.cpuMilli = new(request.MilliAmount(&q, request.MostMilli))
	case "jupyter":
		how, err := jupyterField(value.Value)
		s.jupyter = &how
		return err
	case "logs":
		if value.Kind != yaml.SequenceNode {
			return fmt.Errorf("is not a list of lines")
		}
		s.logs, s.hasLogs = nil, true
		for _, line := range value.Content {
			s.logs = append(s.logs, line.Value)
		}
	default:
		if near := gpu.NearestWord(key, simulationFields); near != "" {
			return fmt.Errorf("unknown field; did you mean %s?", near)
		}
		return fmt.Errorf("unknown field; the fields are %v", simulationFields)
	}
	return nil
}

// load reads utilization: a ratio, or a list of steps.
func (s *simulation) load(value *yaml.Node) error {
	s.curve, s.utilization = nil, nil
	if value.Kind != yaml.SequenceNode {
		r, err := ratio(value)
		s.utilization = &r
		return err
	}
	for i, item := range value.Content {
		p, err := point(item)
		if err != nil {
			return fmt.Errorf("step %d: %w", i+1, err)
		}
		s.curve = append(s.curve, p)
	}
	slices.SortStableFunc(s.curve, func(a, b fakegpu.Point) int { return int(a.After - b.After) })
	return nil
}

func point(n *yaml.Node) (fakegpu.Point, error) {
	p := fakegpu.Point{MemoryBytes: -1}
	if n.Kind != yaml.MappingNode {
		return p, fmt.Errorf("is not a mapping such as {after: 10s, utilization: 0.9}")
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		var err error
		switch key, value := n.Content[i].Value, n.Content[i+1]; key {
		case "after":
			if p.After, err = time.ParseDuration(value.Value); err != nil || p.After < 0 {
				return p, fmt.Errorf("after: %q is not a duration; write one such as 10s", value.Value)
			}
		case "utilization":
			p.UtilizationRatio, err = ratio(value)
		case "memory":
			p.MemoryBytes, err = memory(value)
		default:
			err = fmt.Errorf("unknown field %s; the fields are after, utilization, memory", key)
		}
		if err != nil {
			return p, err
		}
	}
	return p, nil
}

func ratio(n *yaml.Node) (float64, error) {
	r, err := strconv.ParseFloat(n.Value, 64)
	if err != nil || math.IsNaN(r) || r < 0 || r > 1 {
		return 0, fmt.Errorf("%q is not a utilization; write a number from 0 to 1", n.Value)
	}
	return r, nil
}

func memory(n *yaml.Node) (int64, error) {
	q, err := resource.ParseQuantity(n.Value)
	if err != nil || q.Sign() < 0 {
		return 0, fmt.Errorf("%q is not a size; write one such as 12Gi", n.Value)
	}
	return request.Amount(&q, request.MostBytes), nil
}

// apply puts what the annotation says over a plan. Memory is capped at that of
// the container's devices.
func (s simulation) apply(plan Plan, devices []sharing.Device) Plan {
	if s.duration != nil {
		plan.Forever, plan.Duration = false, *s.duration
		plan.ExitCode, plan.Reason, plan.Message = 0, "", ""
	}
	if s.exitCode != nil {
		plan.ExitCode = *s.exitCode
		if s.duration == nil && plan.Forever {
			plan.Forever, plan.Duration = false, batchDuration
		}
	}
	if s.hasLogs {
		plan.Steps, plan.Every = spread(s.logs, plan), 0
	}
	if s.stop != nil {
		plan.Stop = *s.stop
	}
	if s.cpuMilli != nil {
		plan.CPUMilli, plan.Idle = *s.cpuMilli, false
	}
	if s.jupyter != nil {
		plan.Jupyter = *s.jupyter
	}
	if m := plan.Model; m != nil {
		own := *m
		if s.loading != nil {
			own.Load = *s.loading
		}
		if s.takes != nil {
			own.Takes = *s.takes
		}
		if s.fails != nil {
			own.Fails = *s.fails
		}
		if s.slots != nil {
			own.Slots = *s.slots
		}
		plan.Model = &own
	}
	most := largest(devices)
	if s.memory != nil {
		plan.MemoryBytes = min(*s.memory, most)
	}
	if s.utilization != nil {
		plan.UtilizationRatio, plan.Curve, plan.Idle = *s.utilization, nil, false
	}
	if s.curve != nil {
		plan.Curve, plan.Idle = slices.Clone(s.curve), false
		for i := range plan.Curve {
			if plan.Curve[i].MemoryBytes < 0 {
				plan.Curve[i].MemoryBytes = plan.MemoryBytes
			}
			plan.Curve[i].MemoryBytes = min(plan.Curve[i].MemoryBytes, most)
		}
		plan.UtilizationRatio = 0
	}
	return plan
}

// spread places log lines evenly over the run: the first at its start, the last
// at its end. A run without an end prints one a second.
func spread(lines []string, plan Plan) []Step {
	steps := make([]Step, len(lines))
	gap := time.Second
	if !plan.Forever && len(lines) > 1 {
		gap = plan.Duration / time.Duration(len(lines)-1)
	}
	for i, line := range lines {
		steps[i] = Step{After: time.Duration(i) * gap, Text: line}
	}
	return steps
}

// largest returns the memory of the largest device, in bytes; no device, no memory.
func largest(devices []sharing.Device) int64 {
	var most int64
	for _, d := range devices {
		most = max(most, d.MemoryBytes)
	}
	return most
}

func dotted(path string) string {
	if path == "" {
		return ""
	}
	return path + "."
}

func spaced(path string) string {
	if path == "" {
		return ""
	}
	return path + " "
}
