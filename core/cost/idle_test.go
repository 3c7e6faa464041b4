package cost

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"berth.dev/berth/core/usage"
)

func TestIdlers(t *testing.T) {
	f := lab()
	for i := range f.Nodes {
		f.Nodes[i].Ups[0].To = time.Time{}
		for k := range f.Nodes[i].Holds {
			f.Nodes[i].Holds[k].To = time.Time{}
		}
	}
	lows := Lows{
		"p1": {{Pod: "p1", From: at(10), To: at(20)}, {Pod: "p1", From: at(60), Shared: true}},
		"p2": {{Pod: "p2", From: at(110)}},
		"p3": {{Pod: "p3", From: at(0)}},
	}
	for _, c := range []struct {
		name  string
		least int // minutes
		want  string
	}{
		{"the one that has cost the most comes first, and one without a price last", 0, "train-1 60m $0.5 $0.5/h shared; nb-0 10m $0.083333 $0.5/h; x 120m $0 $0/h"},
		{"one that has been idle for a moment is left out", 30, "train-1 60m $0.5 $0.5/h shared; x 120m $0 $0/h"},
		{"nothing has been idle for so long", 121, ""},
	} {
		var got []string
		for _, one := range Idlers(f, lows, time.Duration(c.least)*time.Minute, at(120)) {
			text := fmt.Sprintf("%s %vm $%v $%v/h", one.Pod.Name, at(120).Sub(one.Since).Minutes(), float64(one.Micros)/1e6, float64(one.HourMicros)/1e6)
			if one.Shared {
				text += " shared"
			}
			got = append(got, text)
		}
		if text := strings.Join(got, "; "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}

func TestAPodThatHasEndedIsNotIdle(t *testing.T) {
	if got := Idlers(lab(), Lows{"p1": {{Pod: "p1", From: at(10)}}}, 0, at(120)); len(got) != 0 {
		t.Errorf("idle are %+v, want none: it does not hold anything", got)
	}
}

func TestUseOf(t *testing.T) {
	lows := Lows{"p1": {{Pod: "p1", From: at(0), To: at(60)}}}
	uses := Uses{
		"p1": {{Pod: "p1", From: at(0), To: at(60), Used: 3 * time.Minute, Busy: 0, MemoryBytes: 1 << 30}, {Pod: "p1", From: at(60), To: at(120), Used: 57 * time.Minute, Busy: 1, MemoryBytes: 5 << 30}},
		"p2": {{Pod: "p2", From: at(70), To: at(90), Used: 10 * time.Minute, Busy: 1, MemoryBytes: 2 << 30, Shared: true}},
	}
	want := "vision/Job/train: 2h $1, idle 0.8333333333333334h $0.416667, known 2h used 1h, 1 pods of 1 GPUs, 1 busy 5 GiB; " +
		"vision/Pod/x: 1h $0, idle 0h $0, known 0h used 0h, 1 pods of 1 GPUs, 0 busy 0 GiB; " +
		"speech/Notebook/nb: 0.5h $0.25, idle 0h $0, known 0.3333333333333333h used 0.16666666666666666h, 1 pods of 1 GPUs, 1 busy 2 GiB shared"
	if got := useText(UseOf(lab(), lows, uses, 10*time.Minute, at(0), at(120), Workload)); got != want {
		t.Errorf("the use is\n%s, want\n%s", got, want)
	}
}

func useText(rows []UseRow) string {
	var out []string
	hours := func(n int64) float64 { return float64(n) / whole / 3_600_000 }
	for _, r := range rows {
		text := fmt.Sprintf("%s: %vh $%v, idle %vh $%v, known %vh used %vh, %d pods of %d GPUs, %d busy %d GiB", r.Name, hours(r.PartMillis), float64(r.Micros)/1e6,
			hours(r.IdleMillis), float64(r.IdleMicros)/1e6, hours(r.KnownMillis), hours(r.UsedMillis), r.Pods, r.Parts/whole, r.Devices, r.MemoryBytes>>30)
		if r.Shared {
			text += " shared"
		}
		out = append(out, text)
	}
	return strings.Join(out, "; ")
}

// TestIdleIsAPartOfWhatIsCharged checks with random facts that holders are charged the same with and without their use,
// and that what was idle, known, and used of it is never more than all, nor less than nothing.
func TestIdleIsAPartOfWhatIsCharged(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 24))
		f, lows, uses := lab(), Lows{}, Uses{}
		for pod := range f.Pods {
			for from := 0; from < 120; from += 1 + r.IntN(40) {
				to := from + 1 + r.IntN(30)
				lows[pod] = append(lows[pod], usage.Low{Pod: pod, From: at(from), To: at(to)})
				uses[pod] = append(uses[pod], usage.Use{Pod: pod, From: at(from), To: at(to), Used: time.Duration(r.IntN(to-from+1)) * time.Minute})
				from = to
			}
		}
		held, micros := int64(0), int64(0)
		for e := range Account(f, at(0), at(120)) {
			if e.Line.Pod != "" {
				held, micros = held+e.PartMillis, micros+e.Micros
			}
		}
		for _, u := range UseOf(f, lows, uses, time.Duration(r.IntN(20))*time.Minute, at(0), at(120), User) {
			held, micros = held-u.PartMillis, micros-u.Micros
			if u.IdleMillis < 0 || u.IdleMillis > u.PartMillis || u.IdleMicros < 0 || u.IdleMicros > u.Micros || u.UsedMillis > u.KnownMillis || u.KnownMillis > u.PartMillis {
				t.Fatalf("seed %d: %+v", seed, u)
			}
		}
		if held != 0 || micros != 0 {
			t.Fatalf("seed %d: %d parts and %d micros are in no row", seed, held, micros)
		}
	}
}
