package client

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"berth.dev/berth/api/v1alpha1"
	"berth.dev/berth/cli/term"
	"berth.dev/berth/core/cost"
	"berth.dev/berth/kube/price"
)

// PriceBooks returns the PriceBooks of a cluster. Where it does not serve them, there are none.
func (c *Cluster) PriceBooks(ctx context.Context, o Options) (list []*v1alpha1.PriceBook, err error) {
	api, err := c.Dynamic(o)
	if err != nil {
		return nil, err
	}
	found, err := api.Resource(v1alpha1.PriceBooks).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	if err := c.Failed("list pricebooks", err); err != nil {
		return nil, err
	}
	for i := range found.Items {
		b := &v1alpha1.PriceBook{}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(found.Items[i].Object, b); err != nil {
			return nil, fmt.Errorf("read pricebook %s: %w", found.Items[i].GetName(), err)
		}
		list = append(list, b)
	}
	return list, nil
}

// PriceRules returns what the PriceBooks of a cluster say. If they cannot be read, nothing is known of prices, and a warning says so:
// those of lists may not be what nodes cost.
func (c *Cluster) PriceRules(ctx context.Context, o Options) (rules cost.Rules, known bool) {
	books, err := c.PriceBooks(ctx, o)
	if err != nil {
		term.Printf(o.Err, "warning: prices are omitted: %v\n", err)
		return nil, false
	}
	return price.Rules(books), true
}
