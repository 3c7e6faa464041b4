package explain_test

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"berth.dev/berth/core/explain"
	"berth.dev/berth/core/notebook"
	"berth.dev/berth/core/queue"
)

func TestPlaceText(t *testing.T) {
	for _, test := range []struct {
		at, of int
		want   string
	}{
		{0, 0, "to be placed"},
		{1, 1, "the only one that waits for x"},
		{1, 2, "1st of 2 that wait for x"},
		{3, 7, "3rd of 7 that wait for x"},
		{11, 20, "11th of 20 that wait for x"},
		{12, 21, "12th of more than 20 that wait for x"},
		{20, 501, "20th of more than 500 that wait for x"},
		{21, 0, "behind at least 20 others that wait for x"},
		{201, 0, "behind at least 200 others that wait for x"},
	} {
		if got := (explain.Place{At: test.at, Of: test.of, Resource: "x"}).String(); got != test.want {
			t.Errorf("place %d of %d is %q, want %q", test.at, test.of, got, test.want)
		}
	}
}

// aged is the age of a pod that was created so many seconds after noon.
func aged(seconds int, uid string) queue.Age {
	return queue.Age{Created: noon.Add(time.Duration(seconds) * time.Second), UID: uid}
}

// TestLinesAreAsASortSays compares Lines with sorting everybody anew, over random
// comings and goings.
func TestLinesAreAsASortSays(t *testing.T) {
	for seed := range uint64(20) {
		chance := rand.New(rand.NewPCG(seed, 1))
		reaches := func() *queue.Reach { // not known, of no node, or of some of three
			switch chance.IntN(6) {
			case 0:
				return nil
			case 1:
				return queue.NewReach(nil)
			}
			return queue.NewReach([]string{"abc"[chance.IntN(3):][:1], "abc"[chance.IntN(3):][:1]})
		}
		l, all := explain.NewLines(), map[string]explain.Member{}
		for range 400 {
			m := explain.Member{
				Namespace: "ns", Name: fmt.Sprint("n", chance.IntN(60)), Resource: []string{"a", "b", ""}[chance.IntN(3)], Count: 1,
				Waits: chance.IntN(3) > 0, Ticket: queue.Ticket{Age: aged(chance.IntN(9), fmt.Sprint(chance.IntN(1000))), Priority: int32(chance.IntN(2))}, Reach: reaches(),
			}
			if chance.IntN(4) == 0 {
				l.Drop(m.ID())
				delete(all, m.ID())
				continue
			}
			l.Put(m)
			if all[m.ID()] = m; m.Resource == "" {
				delete(all, m.ID())
			}
		}
		for id, m := range all {
			before, of := 1, 0
			for _, o := range all {
				if o.Resource == m.Resource && o.Waits && (o.ID() == m.ID() || queue.Compete(o.Reach, m.Reach)) {
					of++
					if cmp.Or(cmp.Compare(m.Priority, o.Priority), o.Created.Compare(m.Created), cmp.Compare(o.UID, m.UID)) < 0 {
						before++
					}
				}
			}
			want := explain.Place{}
			if m.Waits && before <= 20 && of <= 20 {
				want = explain.Place{At: before, Of: of, Resource: m.Resource}
			} else if m.Waits {
				continue // rounded: see TestPlaceText
			}
			if got := l.Place(id); got != want {
				t.Fatalf("seed %d: place of %s is %+v, want %+v", seed, id, got, want)
			}
		}
	}
}

// TestOneThatLeavesALongLineMovesFew: of a thousand that wait, some twenty are told
// another place when the first leaves, not all.
func TestOneThatLeavesALongLineMovesFew(t *testing.T) {
	l := explain.NewLines()
	for i := range 1000 {
		l.Put(explain.Member{Namespace: "ns", Name: fmt.Sprint(i), Resource: "x", Count: 1, Waits: true, Ticket: queue.Ticket{Age: aged(i, fmt.Sprint(i))}})
	}
	if got := len(l.Changed()); got != 1000 {
		t.Fatalf("%d of 1000 that came are told of", got)
	}
	if got := l.Changed(); len(got) != 0 {
		t.Fatalf("nothing has changed, and %d are told of", len(got))
	}
	most := 0
	for i := range 300 {
		l.Drop(fmt.Sprint("ns/", i))
		most = max(most, len(l.Changed()))
	}
	if most > 26 {
		t.Errorf("one that leaves moves %d, want at most 26: the first twenty, and one for each step of the rounding", most)
	}
}

func TestRivals(t *testing.T) {
	l := explain.NewLines()
	for i, count := range []int64{1, 4, 2, 1, 1} {
		l.Put(explain.Member{Namespace: "ns", Name: fmt.Sprint("n", i), Resource: "x", Count: count})
	}
	l.Put(explain.Member{Namespace: "other", Name: "secret", Resource: "x", Count: 3})
	l.Put(explain.Member{Namespace: "ns", Name: "waits", Resource: "x", Count: 1, Waits: true})
	want := explain.Rivals{Here: "n1 (4), n2 (2), n0 (1), others of this namespace (2)", Elsewhere: 3}
	if got := l.Rivals("ns", "x"); got != want {
		t.Errorf("rivals are %+v, want %+v", got, want)
	}
}

// rows: NB-25

func TestChanged(t *testing.T) {
	two := []explain.Amount{{Resource: "nvidia.com/gpu", Count: 2}}
	mig := []explain.Amount{{Resource: "nvidia.com/mig-1g.5gb", Count: 1}}
	for _, test := range []struct {
		old, now   []explain.Amount
		from, want string
	}{
		{oneGPU, two, "a:1", "GPU count 1 to 2"},
		{oneGPU, mig, "a:1", "1 nvidia.com/gpu to 1 nvidia.com/mig-1g.5gb"},
		{nil, oneGPU, "a:1", "no GPU to 1 nvidia.com/gpu"},
		{oneGPU, nil, "a:1", "1 nvidia.com/gpu to no GPU"},
		{oneGPU, oneGPU, "a:0", "image a:0 to a:1"},
		{oneGPU, oneGPU, "a:1", "its spec has changed"},
	} {
		if got := notebook.Changed(test.old, test.now, test.from, "a:1"); got != test.want {
			t.Errorf("Changed(%v, %v, %s) is %q, want %q", test.old, test.now, test.from, got, test.want)
		}
	}
}

// TestNext plays the rules of a change against a StatefulSet's controller that is
// as late as it likes, with changes of mind and deaths between: a pod that runs as
// is wanted is never deleted, none goes before its follower is written, and all
// ends as is wanted.
func TestNext(t *testing.T) {
	for seed := range uint64(300) {
		chance := rand.New(rand.NewPCG(seed, 2))
		want := notebook.Want{Mark: "m0", Full: "f0", Replicas: 1}
		var set *notebook.Set
		var pod *notebook.Running
		template, pods, changes := "", 0, 1
		step := func() notebook.Act {
			act := notebook.Next(want, set, pod, notebook.RoomYes)
			switch act {
			case notebook.Create, notebook.Update:
				set = &notebook.Set{Mark: want.Mark, Full: want.Full, Replicas: want.Replicas}
			case notebook.Replace:
				if pod.Mark == want.Mark {
					t.Fatalf("seed %d: a pod that is as wanted is deleted", seed)
				}
				pod = nil
			case notebook.Keep, notebook.AskRoom, notebook.Hold:
			}
			return act
		}
		controller := func() {
			if set == nil {
				return
			}
			set.Seen, template = true, set.Mark
			switch {
			case set.Replicas == 0:
				pod = nil
			case pod == nil:
				pods++
				pod = &notebook.Running{UID: fmt.Sprint(pods), Mark: template}
			}
		}
		for range 40 {
			switch chance.IntN(5) {
			case 0:
				m := chance.IntN(3)
				if mark := fmt.Sprint("m", m); mark != want.Mark {
					changes++
				}
				want = notebook.Want{Mark: fmt.Sprint("m", m), Full: fmt.Sprint("f", m, chance.IntN(2)), Replicas: 1}
			case 1, 2:
				step()
			case 3:
				controller()
			case 4:
				if pod != nil {
					pod.Bound = true
				}
			}
		}
		for range 6 {
			step()
			controller()
		}
		if act := step(); act != notebook.Keep || pod == nil || pod.Mark != want.Mark {
			t.Errorf("seed %d: it ends with %+v, and act %d is due; want the pod of mark %s", seed, pod, act, want.Mark)
		}
		if pods > changes {
			t.Errorf("seed %d: %d pods for %d changes", seed, pods, changes)
		}
	}
}

func TestNextHoldsWhatHasNoRoom(t *testing.T) {
	set := &notebook.Set{Mark: "a", Full: "a", Replicas: 1, Seen: true}
	want := notebook.Want{Mark: "b", Full: "b", Replicas: 1}
	for _, test := range []struct {
		name string
		want notebook.Want
		pod  *notebook.Running
		room notebook.Room
		act  notebook.Act
	}{
		{"one that runs is asked about first", want, &notebook.Running{Mark: "a", Bound: true}, notebook.RoomUnknown, notebook.AskRoom},
		{"without room it runs on", want, &notebook.Running{Mark: "a", Bound: true}, notebook.RoomNo, notebook.Hold},
		{"with room it is written", want, &notebook.Running{Mark: "a", Bound: true}, notebook.RoomYes, notebook.Update},
		{"one that waits has nothing to lose", want, &notebook.Running{Mark: "a"}, notebook.RoomUnknown, notebook.Update},
		{"one that has failed has nothing to lose", want, &notebook.Running{Mark: "a", Bound: true, Ended: true}, notebook.RoomUnknown, notebook.Update},
		{"without a pod there is nothing to lose", want, nil, notebook.RoomUnknown, notebook.Update},
		{"labels alone restart nothing", notebook.Want{Mark: "a", Full: "b", Replicas: 1}, &notebook.Running{Mark: "a", Bound: true}, notebook.RoomUnknown, notebook.Update},
		{"a stop needs no room", notebook.Want{Mark: "b", Full: "b"}, &notebook.Running{Mark: "a", Bound: true}, notebook.RoomUnknown, notebook.Update},
	} {
		if got := notebook.Next(test.want, set, test.pod, test.room); got != test.act {
			t.Errorf("%s: act is %d, want %d", test.name, got, test.act)
		}
	}
}

// rows: NB-54

func TestRequiredCUDA(t *testing.T) {
	for _, test := range []struct{ require, image, want, from string }{
		{"cuda>=12.4 brand=tesla,driver>=470,driver<471", "nvidia/cuda:11.8.0-base", "12.4", "NVIDIA_REQUIRE_CUDA"},
		{"", "nvidia/cuda:12.4.1-cudnn-devel-ubuntu22.04", "12.4", "its tag"},
		{"", "pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime", "12.1", "its tag"},
		{"", "quay.io/x/pytorch-cuda12:2024", "12.0", "its tag"},
		{"", "x/y:v1-cu118", "11.8", "its tag"},
		{"", "x/y:cuda-12.6", "12.6", "its tag"},
		{"", "kubeflownotebookswg/jupyter-pytorch-cuda-full:v1.9.0", "0.0", ""},
		{"", "jupyter/scipy-notebook:2024-10-07", "0.0", ""},
		{"", "host:5000/x/y", "0.0", ""},
		{"", "x/y:curl-7", "0.0", ""},
	} {
		got, from := explain.RequiredCUDA(test.require, test.image)
		if got.String() != test.want || from != test.from {
			t.Errorf("RequiredCUDA(%q, %q) is %s of %q, want %s of %q", test.require, test.image, got, from, test.want, test.from)
		}
	}
}

func TestImageRemark(t *testing.T) {
	for image, bad := range map[string]bool{
		"pytorch/pytorch:2.0.0-cuda11.8-cudnn8": true, "docker.io/pytorch/pytorch:2.0.0-cuda11.8-cudnn8": true,
		"pytorch/pytorch:2.0.0-cuda11.7-cudnn8-runtime": false, "pytorch/pytorch:2.0.0-cuda11.7-cudnn8-devel": false,
		"pytorch/pytorch:0.4_cuda9_cudnn7": false, "pytorch/pytorch:2": false, "nvcr.io/pytorch/pytorch:2.0.0-cuda11.8-cudnn8": false,
		"pytorch/pytorch:2.0.0-cuda11.8-cudnn8@sha256:abc": false, "my/pytorch:2.0.0-cuda11.8-cudnn8": false,
		"x/y": true, "x/y:latest": true, "host:5000/y": true, "x/y:1": false, "x/y@sha256:abc": false, "host:5000/y:2": false,
	} {
		if got := explain.ImageRemark(image) != ""; got != bad {
			t.Errorf("%s is remarked on: %v, want %v", image, got, bad)
		}
	}
	if got := slices.Compact([]string{explain.CUDARemark("x", explain.CUDA{12, 4}, "its tag", explain.CUDA{12, 4}), explain.CUDARemark("x", explain.CUDA{13, 0}, "its tag", explain.CUDA{})}); len(got) != 1 || got[0] != "" {
		t.Errorf("what the driver gives, or nobody knows, is remarked on: %q", got)
	}
}
