// Package kubetest builds Node and Pod objects for tests.
package kubetest
