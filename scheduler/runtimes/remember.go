package runtimes

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typed "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/util/retry"
	"k8s.io/klog/v2"

	"berth.dev/berth/kube/runs"
)

// How often run times are written at most, how soon a change is after a time without any, and how often they are
// read where that failed at the start.
const (
	saveEvery = time.Minute
	saveAfter = 5 * time.Second
	loadEvery = 10 * time.Second
)

// Remember reads what was learned before, and then writes what is learned, at most once a minute, until ctx ends. maps
// are the ConfigMaps of runs.Namespace. leads reports whether this scheduler is the one that writes. Damaged run times are
// replaced, and that is logged; without the rights for it run times are forgotten when the process ends.
func (t *Times) Remember(ctx context.Context, maps typed.ConfigMapInterface, leads func() bool) {
	log := klog.FromContext(ctx).WithValues("configMap", runs.Namespace+"/"+runs.Name)
	err := wait.PollUntilContextCancel(ctx, loadEvery, true, func(ctx context.Context) (bool, error) {
		m, err := maps.Get(ctx, runs.Name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			t.load(nil)
			return true, nil
		case apierrors.IsForbidden(err):
			return false, err
		case err != nil:
			log.V(2).Info("Run times cannot be read yet", "reason", err.Error())
			return false, nil
		}
		list, err := runs.Decode(m.BinaryData[runs.Key])
		if err != nil {
			log.Error(err, "What was known of run times is lost: estimates begin again with the next pods that end")
		}
		t.load(list)
		return true, nil
	})
	if err != nil {
		if ctx.Err() == nil {
			log.Error(err, "Run times are not remembered: grant the scheduler the Role berth-scheduler-run-times in deploy/scheduler.yaml")
			t.load(nil)
		}
		return
	}
	var last time.Time
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if leads() && time.Since(last) >= saveEvery && t.save(ctx, maps, log) {
			last = time.Now()
		}
	}, saveAfter)
}

// save writes what has changed, and reports whether something had.
func (t *Times) save(ctx context.Context, maps typed.ConfigMapInterface, log klog.Logger) bool {
	list, changed := t.unsaved()
	if !changed {
		return false
	}
	if err := Write(ctx, maps, runs.Key, runs.Encode(list)); err != nil {
		t.lost()
		log.Error(err, "Run times are not saved yet")
	}
	return true
}

// Write writes what is remembered under a key of the ConfigMap of runs.Namespace, and leaves what others have there.
func Write(ctx context.Context, maps typed.ConfigMapInterface, key string, text []byte) error {
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		m, err := maps.Get(ctx, runs.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			m = &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: runs.Namespace, Name: runs.Name}, BinaryData: map[string][]byte{key: text}}
			_, err = maps.Create(ctx, m, metav1.CreateOptions{})
			return err
		}
		if err != nil {
			return err
		}
		if m.BinaryData == nil {
			m.BinaryData = map[string][]byte{}
		}
		m.BinaryData[key] = text
		_, err = maps.Update(ctx, m, metav1.UpdateOptions{})
		return err
	})
}
