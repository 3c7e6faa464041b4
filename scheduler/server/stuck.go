package server

import (
	"context"
	"fmt"
	"time"

	"k8s.io/klog/v2"
	schedulerconfig "k8s.io/kubernetes/cmd/kube-scheduler/app/config"

	"berth.dev/berth/scheduler/stuck"
)

// WatchStuck has pods watched that hold GPUs and cannot run. run tells of them, and
// deletes them where the policy says so, until its context ends: call it in the
// scheduler that leads, and after its informers have started. WatchStuck itself
// comes before that.
func WatchStuck(cc *schedulerconfig.CompletedConfig, policy stuck.Policy) (run func(context.Context), err error) {
	w := stuck.NewWatcher(policy, cc.Client, cc.EventBroadcaster.NewRecorder("berth-scheduler"), time.Now)
	if _, err := cc.InformerFactory.Core().V1().Pods().Informer().AddEventHandler(w.Handler()); err != nil {
		return nil, fmt.Errorf("watch pods: %w", err)
	}
	return func(ctx context.Context) {
		w.Run(ctx, func(err error) { klog.ErrorS(err, "A pod keeps GPUs that it cannot use") })
	}, nil
}
