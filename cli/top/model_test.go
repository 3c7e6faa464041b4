package top

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	tea "charm.land/bubbletea/v2"

	"berth.dev/berth/cli/client"
	"berth.dev/berth/cli/nodes"
	"berth.dev/berth/kube/devices"
	"berth.dev/berth/kube/exporter"
	"berth.dev/berth/test/golden"
	onscreen "berth.dev/berth/test/screen"
)

var now = time.Date(2026, 11, 2, 15, 4, 5, 0, time.UTC)

// device is a GPU of 40 GiB, with its pods.
func device(node string, index int, pods ...string) nodes.Device {
	d := nodes.Device{
		Node: node, Index: index, UUID: fmt.Sprint("GPU-", node, "-", index), Product: "NVIDIA A100-SXM4-40GB", MemoryBytes: 40 << 30, Healthy: true, Holders: []nodes.Holder{},
	}
	d.GPU = d.UUID
	for i, pod := range pods {
		d.Holders = append(d.Holders, nodes.Holder{
			Kind: "Pod", Namespace: "ml", Name: pod, Pod: pod, User: "u-" + pod, Since: now.Add(-time.Duration(i+1) * time.Hour).Format(time.RFC3339), MilliGPU: 1000 / int64(len(pods)),
		})
	}
	return d
}

// reading is of one of them.
func reading(d *nodes.Device, pod string, ratio float64, gib int64, watts float64) exporter.Reading {
	r := exporter.Reading{UUID: d.GPU, Profile: d.MIGProfile, Utilization: ratio, UtilizationKnown: true, MemoryBytes: gib << 30, PowerWatts: watts}
	if pod != "" {
		r.Namespace, r.Pod = "ml", pod
	}
	return r
}

// cluster has a busy GPU, an idle one that is held, a free one, one that is broken, and a shared one.
func cluster() snapshot {
	busy, idle, free, broken, shared := device("a1", 0, "train"), device("a1", 1, "sleeps"), device("a1", 2), device("a2", 0), device("a2", 1, "left", "right")
	broken.Healthy, broken.Xid = false, 79
	shared.Shares = 4
	shared.Free = 2
	list := []nodes.Device{busy, idle, free, broken, shared}
	return snapshot{
		at: now, waiting: 2, total: devices.Count{Physical: 5, Held: 2500, Free: 1500, Unhealthy: 1, Busy: 0.47, BusyKnown: true},
		rows: rowsOf(list, []exporter.Reading{
			reading(&busy, "train", 0.93, 35, 380), reading(&idle, "sleeps", 0.01, 9, 61), reading(&free, "", 0, 0, 55),
			reading(&shared, "left", 0.4, 10, 210), reading(&shared, "right", 0.1, 4, 210), reading(&shared, "", 0, 1, 210),
		}),
	}
}

// press has a model take keys, by the names that bubbletea has for them.
func press(m *model, keys ...string) (ended bool) {
	named := map[string]tea.Key{
		"enter": {Code: tea.KeyEnter}, "esc": {Code: tea.KeyEscape}, "backspace": {Code: tea.KeyBackspace}, "down": {Code: tea.KeyDown}, "end": {Code: tea.KeyEnd},
		"pgup": {Code: tea.KeyPgUp}, "space": {Code: tea.KeySpace, Text: " "}, "ctrl+c": {Code: 'c', Mod: tea.ModCtrl},
	}
	for _, key := range keys {
		k, has := named[key]
		if !has {
			k = tea.Key{Code: []rune(key)[0], Text: key}
		}
		_, cmd := m.Update(tea.KeyPressMsg(k))
		ended = cmd != nil
	}
	return ended
}

func screen(width, height int) *model {
	m := &model{}
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	m.Update(cluster())
	return m
}

func TestScreens(t *testing.T) {
	for _, c := range []struct {
		name, file    string
		width, height int
		keys          []string
	}{
		{"all that there is, in the order of nodes", "all.txt", 130, 14, nil},
		{"the busiest first", "busy.txt", 130, 14, []string{"s"}},
		{"only what pods hold, of those that a filter names", "filter.txt", 130, 14, []string{"h", "/", "m", "l", "/", "x", "backspace", "enter"}},
		{"a screen of 60 columns cuts lines", "narrow.txt", 60, 14, nil},
		{"the end of a list that does not fit", "end.txt", 130, 8, []string{"end"}},
		{"nothing that the filter names", "nothing.txt", 130, 10, []string{"/", "q", "q"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := screen(c.width, c.height)
			if press(m, c.keys...) {
				t.Errorf("%q end the screen", c.keys)
			}
			text := m.text()
			golden.File(t, c.file, text+"\n")
			if lines := strings.Split(text, "\n"); len(lines) != c.height {
				t.Errorf("%d lines on a screen of %d", len(lines), c.height)
			}
			for line := range strings.Lines(text) {
				if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > c.width {
					t.Errorf("a line of %d columns: %q", n, line)
				}
			}
		})
	}
}

func TestTheTableOnScreens(t *testing.T) {
	onscreen.File(t, "screens.txt", func(w io.Writer) {
		c, seen := &command{o: client.Options{Out: w, Err: w}}, cluster()
		if err := c.print(&seen); err != nil {
			t.Fatal(err)
		}
	})
}

func TestAScreenWithoutRowsSaysWhy(t *testing.T) {
	m := screen(130, 14)
	m.seen.rows = m.seen.rows[2:3] // the free GPU
	press(m, "h")
	if text := m.text(); !strings.Contains(text, "no pod holds a GPU") {
		t.Error(text)
	}
}

func TestKeysEndIt(t *testing.T) {
	for _, c := range []struct {
		keys []string
		ends bool
	}{
		{[]string{"q"}, true}, {[]string{"ctrl+c"}, true}, {[]string{"/", "ctrl+c"}, true}, {[]string{"/", "q"}, false}, {[]string{"/", "enter", "q"}, true}, {[]string{"esc"}, false},
	} {
		if got := press(screen(80, 20), c.keys...); got != c.ends {
			t.Errorf("%q: ended is %v", c.keys, got)
		}
	}
}

func TestAPauseKeepsWhatIsShown(t *testing.T) {
	m := screen(130, 14)
	press(m, "p")
	later := cluster()
	later.at, later.rows = now.Add(time.Hour), nil
	m.Update(later)
	if text := m.text(); !strings.Contains(text, "15:04:05") || !strings.Contains(text, "PAUSED") {
		t.Errorf("a pause shows\n%s", text)
	}
	press(m, "p")
	m.Update(later)
	if text := m.text(); !strings.Contains(text, "16:04:05") {
		t.Errorf("after it is\n%s", text)
	}
}

func TestAClusterThatDoesNotAnswerLeavesTheLastScreen(t *testing.T) {
	m := screen(130, 14)
	m.Update(failure{errors.New("no route\x1b[2J\nto the host")})
	text := m.text()
	if !strings.Contains(text, "ml/train") || !strings.Contains(text, "as it was: no route") || strings.Contains(text, "\x1b") || strings.Count(text, "\n") != 13 {
		t.Errorf("%q", text)
	}
	m.Update(cluster())
	if text := m.text(); strings.Contains(text, "as it was") {
		t.Errorf("when it answers again:\n%s", text)
	}
}

func TestScrollingStaysInTheList(t *testing.T) {
	m := screen(130, 8) // three rows of seven
	for _, c := range []struct {
		keys  []string
		first int
	}{{[]string{"k"}, 0}, {[]string{"j", "down"}, 2}, {[]string{"end"}, 4}, {[]string{"j"}, 4}, {[]string{"pgup"}, 1}, {[]string{"g"}, 0}, {[]string{"end", "h"}, 1}} {
		if press(m, c.keys...); m.first != c.first {
			t.Errorf("after %q the first row is %d; want %d", c.keys, m.first, c.first)
		}
	}
}

// TestWhoseReadingItIs has what exporters of several kinds say of a part of a GPU.
func TestWhoseReadingItIs(t *testing.T) {
	whole, mig, shared, unplaced := device("n", 0, "a"), device("n", 1, "a"), device("n", 2, "a", "b"), device("n", -1, "a")
	mig.MIGProfile, mig.UUID = "1g.5gb", "MIG-1"
	shared.Shares = 2
	unplaced.GPU, unplaced.UUID = "unknown", "unknown"
	other := mig
	other.MIGProfile = "3g.20gb"
	for _, c := range []struct {
		name   string
		device nodes.Device
		says   []exporter.Reading
		want   string // of the first row
	}{
		{"its pod's part", shared, []exporter.Reading{reading(&shared, "a", 0.2, 4, 0), reading(&shared, "b", 0.6, 9, 0), reading(&shared, "", 0.1, 1, 0)}, "20% 4/40GiB"},
		{"a GPU of which the exporter names no pod", whole, []exporter.Reading{reading(&whole, "", 0.7, 8, 0)}, "70% 8/40GiB"},
		{"a GPU that the exporter still has under another pod", whole, []exporter.Reading{reading(&whole, "gone", 0.7, 8, 0)}, "- 40GiB"},
		{"a share whose exporter names no pod", shared, []exporter.Reading{reading(&shared, "", 0.7, 8, 0)}, "- 40GiB"},
		{"two MIG devices of a pod are their mean", mig, []exporter.Reading{reading(&mig, "a", 0.2, 1, 0), reading(&mig, "a", 0.6, 3, 0), reading(&other, "a", 1, 9, 0)}, "40% 2/40GiB"},
		{"a pod whose devices the node does not say", unplaced, []exporter.Reading{reading(&whole, "a", 0.5, 2, 0)}, "50% 2/40GiB"},
		{"no exporter", whole, nil, "- 40GiB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			row := rowsOf([]nodes.Device{c.device}, c.says)[0]
			if got := utilText(&row, false) + " " + memoryText(&row); got != c.want {
				t.Errorf("%s; want %s", got, c.want)
			}
		})
	}
}

func TestThePowerOfAGPUIsCountedOnce(t *testing.T) {
	s := cluster()
	watts := 0.0
	for _, r := range s.rows {
		if r.PowerWatts != nil {
			watts += *r.PowerWatts
		}
	}
	if watts != 380+61+55+210 {
		t.Errorf("all GPUs take %v W", watts)
	}
}

func TestBars(t *testing.T) {
	for ratio, want := range map[float64]string{-1: "········", 0: "········", 0.5: "████····", 0.93: "███████▌", 1: "████████", 7: "████████"} {
		if got := bar(ratio); got != want {
			t.Errorf("%v is %q; want %q", ratio, got, want)
		}
	}
}
