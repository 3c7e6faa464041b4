package client

import (
	"context"
	"encoding/json"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Ledger has the ledger of the cluster answer a question, such as cost or idle, and reads the answer into a value.
func (c *Cluster) Ledger(ctx context.Context, question string, params map[string]string, into any) error {
	return c.ledger(ctx, "GET", question, params, into)
}

// ChangeLedger has the ledger of the cluster change something, such as rerate, and reads the answer into a value.
func (c *Cluster) ChangeLedger(ctx context.Context, what string, params map[string]string, into any) error {
	return c.ledger(ctx, "POST", what, params, into)
}

func (c *Cluster) ledger(ctx context.Context, verb, name string, params map[string]string, into any) error {
	raw, err := c.call(ctx, verb, "/berth/v1/"+name, params)
	if apierrors.IsNotFound(err) {
		return fmt.Errorf("read the ledger of %s: there is none; `berth up` keeps one", c.Name)
	}
	if err != nil {
		return c.Failed("read the ledger", err)
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read the ledger of %s: its answer is not understood: %w", c.Name, err)
	}
	return nil
}
