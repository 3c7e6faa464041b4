package estimates

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/klog/v2"

	"berth.dev/berth/core/forecast"
	"berth.dev/berth/kube/explain"
	"berth.dev/berth/kube/runs"
	"berth.dev/berth/scheduler/runtimes"
)

// How often is looked at least, how many times as long as a look took is waited before the next, and how often is written at most.
const (
	lookEvery = 10 * time.Second
	restFor   = 49 // at most 2 % of a core
	saveEvery = time.Minute
)

// Source is where Estimates read pods, and what is estimated from.
type Source struct {
	Pods   func() ([]*v1.Pod, error)
	Around func(pods []*v1.Pod, came *forecast.Outcomes) *explain.Situation
	Maps   typed.ConfigMapInterface // of runs.Namespace
	Leads  func() bool              // whether this scheduler is the one that measures
}

// Run measures estimates from when the scheduler leads until ctx ends. If what was remembered is damaged, it begins again, and logs
// that.
func (e *Estimates) Run(ctx context.Context, s *Source) {
	log := klog.FromContext(ctx).WithValues("configMap", runs.Namespace+"/"+runs.Name, "key", runs.StartsKey)
	err := wait.PollUntilContextCancel(ctx, time.Second, true, func(ctx context.Context) (bool, error) { return s.Leads() && e.load(ctx, s.Maps, log), nil })
	if err != nil {
		return
	}
	var saved time.Time
	for rest := lookEvery; ; {
		select {
		case <-ctx.Done():
			return
		case <-time.After(rest):
		}
		began := time.Now()
		pods, err := s.Pods()
		if err == nil {
			err = e.Look(pods, func(came *forecast.Outcomes) *explain.Situation { return s.Around(pods, came) }, began)
		}
		if err != nil {
			log.V(2).Info("Starts are not estimated now", "reason", err.Error())
		}
		if time.Since(saved) >= saveEvery && s.Leads() && e.save(ctx, s.Maps, log) {
			saved = time.Now()
		}
		rest = max(lookEvery, restFor*time.Since(began))
	}
}

// load reads what was remembered, and reports whether it knows now.
func (e *Estimates) load(ctx context.Context, maps typed.ConfigMapInterface, log klog.Logger) bool {
	m, err := maps.Get(ctx, runs.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err): // package runtimes logs that it is forbidden
		return true
	case err != nil:
		log.V(2).Info("What came of estimates cannot be read yet", "reason", err.Error())
		return false
	}
	came, err := runs.DecodeStarts(m.BinaryData[runs.StartsKey])
	if err != nil {
		log.Error(err, "What came of estimates is lost: their measure begins again with the next workloads that start")
		return true
	}
	e.mu.Lock()
	e.came = came
	e.mu.Unlock()
	return true
}

// save writes what has changed, and reports whether something had.
func (e *Estimates) save(ctx context.Context, maps typed.ConfigMapInterface, log klog.Logger) bool {
	e.mu.Lock()
	changed := e.came.Unsaved()
	var text []byte
	var err error
	if changed {
		text, err = runs.EncodeStarts(e.came)
	}
	e.mu.Unlock()
	if !changed {
		return false
	}
	if err == nil {
		err = runtimes.Write(ctx, maps, runs.StartsKey, text)
	}
	if err != nil {
		e.mu.Lock()
		e.came.Lost()
		e.mu.Unlock()
		if !apierrors.IsForbidden(err) {
			log.Error(err, "What came of estimates is not saved yet")
		}
	}
	return true
}
