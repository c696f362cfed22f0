// A client in another language: go-redis against the server whose address is the argument,
// in RESP2 and RESP3. It prints ok, or says what was wrong and exits with 1.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"reflect"
	"sync"

	"github.com/redis/go-redis/v9"
)

func expect(what string, seen, wanted any) {
	if !reflect.DeepEqual(seen, wanted) {
		fmt.Printf("%s: seen %#v, wanted %#v\n", what, seen, wanted)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		fmt.Println("error:", err)
		os.Exit(1)
	}
	return value
}

func main() {
	for _, protocol := range []int{2, 3} {
		check(os.Args[1], protocol)
	}
	fmt.Println("ok")
}

func check(address string, protocol int) {
	ctx := context.Background()
	client := redis.NewClient(&redis.Options{Addr: address, Protocol: protocol, PoolSize: 16})
	defer client.Close()
	must(client.FlushAll(ctx).Result())

	structures(ctx, client)
	transfers(ctx, client)
	optimistic(ctx, client)
}

func structures(ctx context.Context, client *redis.Client) {
	expect("SET", must(client.Set(ctx, "a", "v", 0).Result()), "OK")
	expect("GET", must(client.Get(ctx, "a").Result()), "v")
	_, err := client.Get(ctx, "absent").Result()
	expect("GET absent", errors.Is(err, redis.Nil), true)
	expect("HSET", must(client.HSet(ctx, "h", "f", "1", "g", "2").Result()), int64(2))
	expect("HGETALL", must(client.HGetAll(ctx, "h").Result()), map[string]string{"f": "1", "g": "2"})
	expect("RPUSH", must(client.RPush(ctx, "l", "a", "b").Result()), int64(2))
	expect("LRANGE", must(client.LRange(ctx, "l", 0, -1).Result()), []string{"a", "b"})
	expect("SADD", must(client.SAdd(ctx, "s", "m").Result()), int64(1))
	expect("SMEMBERS", must(client.SMembers(ctx, "s").Result()), []string{"m"})
	expect("ZADD", must(client.ZAdd(ctx, "z", redis.Z{Score: 1.5, Member: "m"}).Result()), int64(1))
	expect("ZRANGE", must(client.ZRangeWithScores(ctx, "z", 0, -1).Result()), []redis.Z{{Score: 1.5, Member: "m"}})
	err = client.LPush(ctx, "a", "x").Err()
	expect("LPUSH on a string", fmt.Sprint(err), "WRONGTYPE Operation against a key holding the wrong kind of value")

	pairs := map[string]any{}
	keys := []string{}
	for n := 0; n < 50; n++ {
		key := fmt.Sprintf("many:%d", n)
		keys = append(keys, key)
		pairs[key] = n
	}
	must(client.MSet(ctx, pairs).Result())
	for n, value := range must(client.MGet(ctx, keys...).Result()) {
		expect("MGET", value, any(fmt.Sprint(n)))
	}
	expect("DEL", must(client.Del(ctx, keys...).Result()), int64(50))
}

// Many transfers at once between two accounts on different shards: no money comes or goes.
func transfers(ctx context.Context, client *redis.Client) {
	must(client.MSet(ctx, "account:1", 1000, "account:2", 1000).Result())
	var all sync.WaitGroup
	for worker := 0; worker < 8; worker++ {
		all.Add(1)
		go func(amount int64) {
			defer all.Done()
			for n := 0; n < 50; n++ {
				must(client.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
					pipe.DecrBy(ctx, "account:1", amount)
					pipe.IncrBy(ctx, "account:2", amount)
					return nil
				}))
				values := must(client.MGet(ctx, "account:1", "account:2").Result())
				var a, b int64
				fmt.Sscan(values[0].(string), &a)
				fmt.Sscan(values[1].(string), &b)
				expect("the sum seen by one MGET", a+b, int64(2000))
			}
		}(int64(worker + 1))
	}
	all.Wait()
	expect("account 1 at the end", must(client.Get(ctx, "account:1").Int64()), int64(1000-50*36))
}

// WATCH: counters on two shards, changed by optimistic transactions, lose no update.
func optimistic(ctx context.Context, client *redis.Client) {
	var all sync.WaitGroup
	for worker := 0; worker < 4; worker++ {
		all.Add(1)
		go func() {
			defer all.Done()
			for done := 0; done < 25; {
				err := client.Watch(ctx, func(tx *redis.Tx) error {
					value, err := tx.Get(ctx, "watched:1").Int()
					if err != nil && !errors.Is(err, redis.Nil) {
						return err
					}
					_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error {
						pipe.Set(ctx, "watched:1", value+1, 0)
						pipe.Incr(ctx, "watched:2")
						return nil
					})
					return err
				}, "watched:1")
				if err == nil {
					done++
				} else if !errors.Is(err, redis.TxFailedErr) {
					must(0, err)
				}
			}
		}()
	}
	all.Wait()
	expect("watched:1", must(client.Get(ctx, "watched:1").Int()), 100)
	expect("watched:2", must(client.Get(ctx, "watched:2").Int()), 100)
}
