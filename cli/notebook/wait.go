package notebook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"berth.dev/berth/api/kubeflow"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/explain"
	"berth.dev/berth/internal/visible"
)

// followAgain is how long after a watch has failed the next one is begun.
const followAgain = time.Second

// errGone reports that the followed object no longer exists.
var errGone = errors.New("it was deleted")

// notReadyError says that a notebook was not ready in time. It is of
// context.DeadlineExceeded, whose exit code it has.
type notReadyError struct{ text string }

// Error is the sentence.
func (e *notReadyError) Error() string { return e.text }

// Unwrap returns context.DeadlineExceeded.
func (e *notReadyError) Unwrap() error { return context.DeadlineExceeded }

// follow calls each for a notebook as it is now and after every change of it,
// until each is done or fails, the notebook is deleted (errGone) or ctx ends.
func (n *Notebooks) follow(ctx context.Context, name string, each func(*kubeflow.Notebook) (done bool, err error)) error {
	for {
		found, err := n.In(n.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) && !NoSuchKind(err) {
			return errGone
		}
		if err != nil {
			return n.Refused("read notebook "+n.Namespace+"/"+name, "get", err)
		}
		if done, err := n.tell(found, each); done || err != nil {
			return err
		}
		done, err := n.followFrom(ctx, name, found.GetResourceVersion(), each)
		if done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(followAgain):
		}
	}
}

// followFrom is one watch of follow. The API server ends it now and then.
func (n *Notebooks) followFrom(ctx context.Context, name, version string, each func(*kubeflow.Notebook) (bool, error)) (done bool, err error) {
	w, err := n.In(n.Namespace).Watch(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String(), ResourceVersion: version,
	})
	if err != nil {
		if apierrors.IsForbidden(err) {
			return false, n.Refused("watch notebook "+n.Namespace+"/"+name, "watch", err)
		}
		return false, nil // it is begun again
	}
	defer w.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case e, ok := <-w.ResultChan():
			if !ok {
				return false, nil
			}
			object, is := e.Object.(*unstructured.Unstructured)
			switch {
			case e.Type == watch.Error:
				return false, nil
			case !is || object.GetName() != name || e.Type == watch.Bookmark:
			case e.Type == watch.Deleted:
				return false, errGone
			default:
				if done, err := n.tell(object, each); done || err != nil {
					return done, err
				}
			}
		}
	}
}

func (n *Notebooks) tell(object *unstructured.Unstructured, each func(*kubeflow.Notebook) (bool, error)) (bool, error) {
	nb, err := FromObject(object)
	if err != nil {
		return false, err
	}
	return each(nb)
}

// untilReady waits until a notebook is ready and shows on w what it waits for. It
// gives up where waiting cannot help, and after patience unless that is 0. What
// the controller has not seen yet (a generation, an annotation) is passed over by
// fresh, which may be nil.
func (n *Notebooks) untilReady(ctx context.Context, name string, patience time.Duration, w io.Writer, fresh func(*kubeflow.Notebook) bool) (*kubeflow.Notebook, error) {
	began := n.Options.Time()
	if patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, patience)
		defer cancel()
	}
	line := newStateLine(w, func() time.Duration { return n.Options.Time().Sub(began) })
	defer line.end()
	pods, stop := context.WithCancel(ctx)
	var following sync.WaitGroup
	defer following.Wait()
	defer stop()
	steps := func(pod *v1.Pod) { line.steps(name, pod) }
	following.Go(func() { n.followPod(pods, name+"-0", steps) })
	var last *kubeflow.Notebook
	var final error
	helped := false
	err := n.follow(ctx, name, func(nb *kubeflow.Notebook) (bool, error) {
		if fresh != nil && !fresh(nb) {
			return false, nil
		}
		last = nb
		if State(nb) == explain.Ready {
			n.lastSteps(ctx, name+"-0", steps)
		}
		if shown := line.state(nb); shown && !helped && n.prospects != nil && WaitsForGPUs(nb) {
			helped = true
			for _, text := range n.prospects(ctx, n, nb) {
				line.note(text)
			}
		}
		done, err := settled(nb)
		final = err
		return done, err
	})
	switch {
	case err == nil || final != nil:
		return last, err
	case errors.Is(err, errGone):
		return nil, fmt.Errorf("notebook %s/%s: %w while waiting for it", n.Namespace, name, errGone)
	case errors.Is(ctx.Err(), context.DeadlineExceeded) && patience > 0:
		return last, &notReadyError{fmt.Sprintf("notebook %s/%s is not ready after %v: %s; it continues in the background; see `%s notebook why %s`",
			n.Namespace, name, patience, StateSentence(last), n.Program(), name)}
	case ctx.Err() != nil:
		return last, fmt.Errorf("no longer waiting for notebook %s/%s; it continues in the background, and `%s notebook stop %s` stops it",
			n.Namespace, name, n.Program(), name)
	}
	return last, err
}

// settled reports whether there is nothing more to wait for: the notebook is ready,
// or cannot become so without a change.
func settled(nb *kubeflow.Notebook) (bool, error) {
	s := State(nb)
	if s == explain.Ready {
		return true, nil
	}
	if slices.Contains([]explain.Reason{
		explain.Invalid, explain.Refused, explain.MissingServiceAccount, explain.MissingPriorityClass, explain.Terminating, explain.Stopped,
	}, s) {
		return true, fmt.Errorf("notebook %s/%s cannot start: %s", nb.Namespace, nb.Name, StateSentence(nb))
	}
	return false, nil
}

// StateSentence is what a notebook does and why, in one line.
func StateSentence(nb *kubeflow.Notebook) string {
	if nb == nil {
		return "no status is known yet"
	}
	s, why := State(nb), cmp.Or(StoppedFor(nb), Cause(nb))
	text := string(s)
	switch {
	case s == explain.Ready:
		return text + " on " + Place(nb)
	case s == explain.Queued && inLine(nb) && !strings.Contains(why, Place(nb)):
		text += ", " + Place(nb)
	}
	if why != "" {
		text += ": " + why
	}
	return text
}

// stateLine shows how the state of a notebook changes: on a terminal one line
// that is written over, else a line for each change. It is safe for concurrent use.
type stateLine struct {
	w    io.Writer
	tty  bool
	took func() time.Duration // since it was begun

	mu     sync.Mutex
	last   string
	open   bool      // the line on the terminal is not ended
	placed bool      // there is a pod that has its node
	pod    types.UID // the pod of which steps were shown last, and how many
	told   int
}

func newStateLine(w io.Writer, took func() time.Duration) *stateLine {
	return &stateLine{w: w, tty: term.IsTerminal(w), took: took}
}

// state shows what a notebook says, and reports whether it counts: of a pod that has its
// node, what was said before it had is late.
func (l *stateLine) state(nb *kubeflow.Notebook) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.placed && slices.Contains(toldByPod, State(nb)) && !changeWaits(nb) {
		return false
	}
	l.show(StateSentence(nb))
	return true
}

// steps shows what of the steps of a notebook's pod was not shown; nil is no pod.
func (l *stateLine) steps(name string, pod *v1.Pod) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if pod == nil {
		l.placed = false
		return
	}
	if pod.UID != l.pod {
		l.pod, l.told = pod.UID, 0
	}
	reached := podSteps(name, pod)
	l.placed = len(reached) > 0
	for _, text := range reached[min(l.told, len(reached)):] {
		l.show(text)
		l.told++
	}
}

// show shows a text that is not the last. l.mu is held.
func (l *stateLine) show(text string) {
	if text == l.last {
		return
	}
	l.last = text
	stamp := fmt.Sprintf("%7.1fs  ", l.took().Seconds())
	if !l.tty {
		term.PrintLine(l.w, stamp+text)
		return
	}
	l.open = true
	if runes, width := []rune(visible.Line(stamp+text)), term.ScreenOf(l.w).Width; width > 1 && len(runes) >= width {
		term.Printf(l.w, "%s%s…", term.ClearLine, string(runes[:width-2]))
		return
	}
	term.Printf(l.w, "%s%s", term.ClearLine, stamp+text)
}

// note adds a line that stays.
func (l *stateLine) note(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close() // what stands there stays
	term.Printf(l.w, "          %s\n", text)
}

// end leaves the last line of a terminal standing.
func (l *stateLine) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.close()
}

// close ends the line that stands open. l.mu is held.
func (l *stateLine) close() {
	if l.open {
		term.PrintLine(l.w, "")
	}
	l.open = false
}
