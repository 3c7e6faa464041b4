package labels

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// WriterOptions say what a Writer writes to. Nodes and Node are needed.
type WriterOptions struct {
	Nodes corev1.NodeInterface
	Node  string // name
	// Force takes NVIDIA's labels over from other writers.
	Force bool
	// Event tells the node's users something, as Events.OnNode; nil writes none.
	Event func(kind, reason, message string)
	Log   *slog.Logger // nil is none
}

// Writer keeps labels and annotations of one Node. It is safe for concurrent use.
type Writer struct {
	o WriterOptions

	mu           sync.Mutex
	want, wanted *fields // as asked for; as it was when it was last written; nil is never
	kept         fields  // what was written of it
	yieldedTo    string  // the components that Berth last logged to have yielded to
}

// fields are labels and annotations.
type fields struct{ labels, annotations map[string]string }

func (f *fields) equal(g *fields) bool {
	return g != nil && maps.Equal(f.labels, g.labels) && maps.Equal(f.annotations, g.annotations)
}

// NewWriter makes a Writer.
func NewWriter(o WriterOptions) *Writer {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Event == nil {
		o.Event = func(string, string, string) {}
	}
	return &Writer{o: o}
}

// mostTries is how often a write is tried when others write the Node at the same time.
const mostTries = 5

// Write makes the Node have these labels and annotations, and none of those that
// were written before and are not among them. It asks the API server nothing when
// they are the same as the last time and Changed has seen no difference, and
// writes nothing when the Node has them already. Labels of NVIDIA's that somebody
// else has written are left to them, with an event, unless Force.
func (w *Writer) Write(ctx context.Context, labels, annotations map[string]string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want = &fields{maps.Clone(labels), maps.Clone(annotations)}
	if w.want.equal(w.wanted) {
		return nil
	}
	var err error
	for range mostTries {
		if err = w.write(ctx); err == nil {
			w.wanted = w.want
			return nil
		}
		if !apierrors.IsConflict(err) {
			break
		}
	}
	return fmt.Errorf("write labels of node %s: %w", w.o.Node, err)
}

// write reads the Node and applies what is to be different.
func (w *Writer) write(ctx context.Context) error {
	node, err := w.o.Nodes.Get(ctx, w.o.Node, metav1.GetOptions{})
	if err != nil {
		return err
	}
	mine, others := owners(node)
	keep := fields{w.want.labels, w.want.annotations}
	if !w.o.Force {
		var left, writers []string
		keep.labels, left, writers = aside(w.want.labels, others)
		w.tell(left, writers)
	}
	w.kept = keep
	if has(node.Labels, keep.labels) && has(node.Annotations, keep.annotations) &&
		owns(mine.labels, keep.labels) && owns(mine.annotations, keep.annotations) {
		return nil
	}
	force := false
	meta := map[string]any{"name": w.o.Node}
	for kind, pair := range map[string][2]map[string]string{"labels": {keep.labels, node.Labels}, "annotations": {keep.annotations, node.Annotations}} {
		if len(pair[0]) > 0 {
			meta[kind] = pair[0]
		}
		for key, value := range pair[0] {
			force = force || len(others[key]) > 0 && pair[1][key] != value
		}
	}
	if force { // only what was seen to be another's, not what becomes it since
		meta["resourceVersion"] = node.ResourceVersion
	}
	body, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Node", "metadata": meta})
	if err != nil {
		return err
	}
	_, err = w.o.Nodes.Patch(ctx, w.o.Node, types.ApplyPatchType, body, metav1.PatchOptions{FieldManager: Manager, Force: &force})
	return err
}

// has reports whether all of want is there.
func has(have, want map[string]string) bool {
	for key, value := range want {
		if v, ok := have[key]; !ok || v != value {
			return false
		}
	}
	return true
}

// owns reports whether a manager has written the keys of want and no others.
func owns(mine map[string]bool, want map[string]string) bool {
	if len(mine) != len(want) {
		return false
	}
	for key := range want {
		if !mine[key] {
			return false
		}
	}
	return true
}

// tell reports once to which writer Berth yields, and once that it no longer does.
func (w *Writer) tell(left, writers []string) {
	said := strings.Join(left, " ") + "/" + strings.Join(writers, " ")
	if said == w.yieldedTo || len(left) == 0 && w.yieldedTo == "" {
		return
	}
	w.yieldedTo = said
	if len(left) == 0 {
		w.yieldedTo = ""
		w.o.Event(v1.EventTypeNormal, "GPULabelsWritten", "No other program writes NVIDIA's labels of this node any longer, so Berth does.")
		return
	}
	what := strings.Join(left, ", ")
	if len(left) > 3 {
		what = fmt.Sprintf("%s and %d more", strings.Join(left[:3], ", "), len(left)-3)
	}
	w.o.Event(v1.EventTypeNormal, "GPULabelsLeft", fmt.Sprintf("The labels %s are written by %s, so Berth does not change them. Remove GPU Feature Discovery from this node, or let Berth's agent take them over.",
		what, strings.Join(writers, ", ")))
	w.o.Log.Info("another program writes these labels", "labels", left, "managers", writers)
}

// Changed takes the Node as a watch has it, and reports whether Write is to be
// called again: somebody has changed or removed what it wrote, or those whom it
// stood aside for write less than before. A watch that drops managedFields shows
// only the first.
func (w *Writer) Changed(node *v1.Node) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.wanted == nil {
		return w.want != nil
	}
	same := has(node.Labels, w.kept.labels) && has(node.Annotations, w.kept.annotations)
	if same && !w.o.Force && len(node.ManagedFields) > 0 {
		_, others := owners(node)
		keep, _, _ := aside(w.want.labels, others)
		same = slices.Equal(slices.Sorted(maps.Keys(keep)), slices.Sorted(maps.Keys(w.kept.labels)))
	}
	if !same {
		w.wanted = nil
	}
	return !same
}
