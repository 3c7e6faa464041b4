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

// RunTimes returns the run times that the scheduler has learned: none where the caller may not read them.
func (c *Cluster) RunTimes(ctx context.Context) (*queue.RunTimes, error) {
	at := fmt.Sprintf("ConfigMap %s/%s", runs.Namespace, runs.Name)
	m, err := c.CoreV1().ConfigMaps(runs.Namespace).Get(ctx, runs.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return queue.NewRunTimes(), nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the run times in %s: %w", at, err)
	}
	list, err := runs.Decode(m.BinaryData[runs.Key])
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w; delete it: the scheduler writes another", runs.Key, at, err)
	}
	return queue.Remembered(list), nil
}

// Outcomes returns what came of the scheduler's estimates of starts: nothing where the caller may not read it.
func (c *Cluster) Outcomes(ctx context.Context) (*forecast.Outcomes, error) {
	at := fmt.Sprintf("ConfigMap %s/%s", runs.Namespace, runs.Name)
	m, err := c.CoreV1().ConfigMaps(runs.Namespace).Get(ctx, runs.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) {
		return &forecast.Outcomes{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read what came of estimates in %s: %w", at, err)
	}
	out, err := runs.DecodeStarts(m.BinaryData[runs.StartsKey])
	if err != nil {
		return nil, fmt.Errorf("read %s of %s: %w; the scheduler begins again when it starts next", runs.StartsKey, at, err)
	}
	return out, nil
}
