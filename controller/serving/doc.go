// Package serving runs InferenceServices: it makes the Deployment and the Services of each, scales it by its requests, to zero too, and
// says in its status what it waits for and what is wrong with its model. All decisions are those of core/serving.
package serving
