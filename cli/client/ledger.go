package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"berth.dev/berth/api"
)

// Ledger has the ledger of the cluster answer a question, such as cost or idle, and reads the answer into a value.
func (c *Cluster) Ledger(ctx context.Context, question string, params map[string]string, into any) error {
	return c.ledger(ctx, "GET", question, params, into)
}

// ChangeLedger has the ledger of the cluster change something, such as rerate, and reads the answer into a value.
func (c *Cluster) ChangeLedger(ctx context.Context, what string, params map[string]string, into any) error {
	return c.ledger(ctx, "POST", what, params, into)
}

// Prometheus has the readings of the cluster answer a question of Prometheus' API, such as query or alerts, and reads the data of the answer into a value.
func (c *Cluster) Prometheus(ctx context.Context, question string, params map[string]string, into any) error {
	raw, err := c.kept(ctx, "GET", api.PrometheusPath+"api/v1/"+question, params)
	var answer struct {
		Data     json.RawMessage `json:"data"`
		Error    string          `json:"error"`
		Warnings []string        `json:"warnings"`
	}
	if err != nil {
		if json.Unmarshal(raw, &answer) == nil && answer.Error != "" {
			return errors.New(answer.Error)
		}
		return err
	}
	if err = json.Unmarshal(raw, &answer); err == nil {
		err = json.Unmarshal(answer.Data, into)
	}
	if err != nil {
		return fmt.Errorf("read the readings of %s: the answer is not understood: %w", c.Name, err)
	}
	for _, w := range answer.Warnings {
		c.note("note: " + w)
	}
	return nil
}

func (c *Cluster) ledger(ctx context.Context, verb, name string, params map[string]string, into any) error {
	raw, err := c.kept(ctx, verb, api.LedgerPath+name, params)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("read the ledger of %s: its answer is not understood: %w", c.Name, err)
	}
	return nil
}

// kept asks what keeps a ledger and readings.
func (c *Cluster) kept(ctx context.Context, verb, path string, params map[string]string) ([]byte, error) {
	raw, err := c.call(ctx, verb, path, params)
	if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) { // the API server of `berth up` has it, and others have a meter at most
		there, failed := c.meter(ctx, verb, path, params)
		none := apierrors.IsNotFound(failed)
		if none && apierrors.IsNotFound(err) {
			if there, found, failed := c.otherPrometheus(ctx, path, params); found {
				return there, failed
			}
			return nil, fmt.Errorf("read the ledger of %s: there is none; `berth up` keeps one, and so does `berth meter` in a cluster (deploy/meter-deployment.yaml)", c.Name)
		}
		if !none {
			raw, err = there, failed
		}
	}
	if err != nil {
		return raw, c.Failed("read the ledger", err)
	}
	return raw, nil
}

// meter asks `berth meter` in the cluster, through the API server's proxy.
func (c *Cluster) meter(ctx context.Context, verb, path string, params map[string]string) ([]byte, error) {
	account := api.LedgerReader
	if verb != http.MethodGet {
		account = api.LedgerWriter
	}
	seconds := int64(10 * 60) // the shortest life of a token
	token, err := c.CoreV1().ServiceAccounts(api.LedgerNamespace).CreateToken(ctx, account, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	through := "/api/v1/namespaces/" + api.LedgerNamespace + "/services/" + api.LedgerService + "/proxy" + path
	return c.call(ctx, verb, through, params, api.LedgerTokenHeader, token.Status.Token)
}
