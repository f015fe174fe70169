// Claim a place for a job on a Stead server, with the client that openapi-generator makes of its OpenAPI document.
//
//	STEAD_URL=http://127.0.0.1:8778 STEAD_TOKEN=… go run . train-1 'resources=VCPU:2&order_by=pack'
//
// docs/other-languages.md says how to generate the package placement.
package main

import (
	"context"
	"crypto/sha1"
	"fmt"
	"os"

	"claim/placement"
)

const versions = "placement 1.39, stead 1.0"

// uuidOf is the uuid of a consumer with this name, the same in every run: a claim that is repeated is the same claim.
func uuidOf(name string) string {
	hash := sha1.Sum([]byte("claim/" + name))
	hash[6], hash[8] = hash[6]&0x0f|0x50, hash[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", hash[0:4], hash[4:6], hash[6:8], hash[8:10], hash[10:16])
}

func main() {
	name, query := os.Args[1], os.Args[2]
	configuration := placement.NewConfiguration()
	configuration.Servers = placement.ServerConfigurations{{URL: os.Getenv("STEAD_URL")}}
	configuration.AddDefaultHeader("X-Auth-Token", os.Getenv("STEAD_TOKEN"))
	client := placement.NewAPIClient(configuration)

	consumer := uuidOf(name)
	claim := placement.NewPostClaimsRequestClaimsInner(
		*placement.NewNullableString(&consumer), query, "go-jobs", "go-jobs", placement.NullableInt32{}, "JOB")
	body := placement.NewPostClaimsRequest([]placement.PostClaimsRequestClaimsInner{*claim})
	granted, _, err := client.ClaimsAPI.PostClaims(context.Background()).
		OpenStackAPIVersion(versions).PostClaimsRequest(*body).Execute()
	if err != nil {
		if refused, ok := err.(*placement.GenericOpenAPIError); ok {
			fmt.Fprintln(os.Stderr, string(refused.Body()))
		}
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for provider, allocation := range granted.Claims[0].Allocations {
		fmt.Println(provider, allocation)
	}
}
