package leader

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// store is pods by UID with their resourceVersion, listed two at a time.
type store struct {
	mu    sync.Mutex // guards the rest
	pods  []metav1.PartialObjectMetadata
	lists int
}

func (s *store) put(uid string, version int) {
	p := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: types.UID(uid), Name: uid, Namespace: "n", ResourceVersion: strconv.Itoa(version)}}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pods = append(s.pods, p)
}

func (s *store) list(_ context.Context, o metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lists++
	if !strings.Contains(o.FieldSelector, "spec.nodeName!=") {
		return nil, fmt.Errorf("field selector %q asks for pods that are not bound", o.FieldSelector)
	}
	from, _ := strconv.Atoi(o.Continue)
	to := min(len(s.pods), from+2)
	page := &metav1.PartialObjectMetadataList{Items: slices.Clone(s.pods[from:to])}
	if to < len(s.pods) {
		page.Continue = strconv.Itoa(to)
	}
	return page, nil
}

func TestCatchUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		none := func(types.UID) (string, bool) { return "", false }
		if err := CatchUp(t.Context(), s.list, none); err != nil {
			t.Fatalf("no bound pods: %v", err)
		}
		// The last written is on the second page, and longer in digits than the rest.
		s.put("a", 7)
		s.put("b", 99)
		s.put("c", 100)
		s.put("d", 98)
		cache := map[types.UID]string{"a": "7", "b": "99", "c": "99"}
		var mu sync.Mutex // guards cache
		cached := func(uid types.UID) (string, bool) {
			mu.Lock()
			defer mu.Unlock()
			v, ok := cache[uid]
			return v, ok
		}
		done := make(chan error, 1)
		go func() { done <- CatchUp(t.Context(), s.list, cached) }()
		time.Sleep(100 * time.Millisecond)
		synctest.Wait()
		select {
		case err := <-done:
			t.Fatalf("it was content with pod c as it was before: %v", err)
		default:
		}
		mu.Lock()
		cache["c"] = "100"
		mu.Unlock()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestCatchUpAsksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		s.put("gone", 5)
		done := make(chan error, 1)
		go func() {
			done <- CatchUp(t.Context(), s.list, func(uid types.UID) (string, bool) { return "4", uid == "other" })
		}()
		time.Sleep(askAgain / 2)
		synctest.Wait()
		s.mu.Lock()
		s.pods = nil
		s.mu.Unlock()
		s.put("other", 4) // the last written was deleted
		if err := <-done; err != nil {
			t.Error(err)
		}
		if s.lists != 2 {
			t.Errorf("the pods were listed %d times, want 2", s.lists)
		}
	})
}

func TestCatchUpGivesUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		s.put("a", 5)
		err := CatchUp(t.Context(), s.list, func(types.UID) (string, bool) { return "4", true })
		if err == nil || !strings.Contains(err.Error(), "the watch of pods is more than 1m0s behind") {
			t.Errorf("a watch that stands still gives %v", err)
		}
	})
	broken := errors.New("no answer")
	err := CatchUp(t.Context(), func(context.Context, metav1.ListOptions) (*metav1.PartialObjectMetadataList, error) {
		return nil, broken
	}, nil)
	if !errors.Is(err, broken) {
		t.Errorf("a list that failed gives %v", err)
	}
}
