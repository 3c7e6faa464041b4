package client

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/core/forecast"
	"berth.dev/berth/core/queue"
	"berth.dev/berth/kube/runs"
)

// learnedAt is where the scheduler keeps what it has learned.
const learnedAt = "ConfigMap " + runs.Namespace + "/" + runs.Name

// Learned is what the scheduler has learned, as it is kept.
type Learned struct{ data map[string][]byte }

// Learned reads what the scheduler has learned: nothing where the caller may not read it.
func (c *Cluster) Learned(ctx context.Context) (*Learned, error) {
	m, err := c.CoreV1().ConfigMaps(runs.Namespace).Get(ctx, runs.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return &Learned{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what the scheduler has learned in %s: %w", learnedAt, err)
	}
	return &Learned{m.BinaryData}, nil
}

// RunTimes returns how long earlier pods ran.
func (l *Learned) RunTimes() (*queue.RunTimes, error) {
	list, err := runs.Decode(l.data[runs.Key])
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w; delete it: the scheduler writes another", runs.Key, learnedAt, err)
	}
	return queue.Remembered(list), nil
}

// Outcomes returns what came of earlier estimates of starts.
func (l *Learned) Outcomes() (*forecast.Outcomes, error) {
	out, err := runs.DecodeStarts(l.data[runs.StartsKey])
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w; the scheduler begins again when it starts next", runs.StartsKey, learnedAt, err)
	}
	return out, nil
}
