// A peer that the service is compared with: Kafka Streams, at the same job as far as it goes.
//
//     java -cp 'JARS/*' FairStreams.java SERVERS PREFIX FOLDER      until it is ended
//
// Exactly once. It reads requests and rewards, decides by Fair-Learn (the arm that lacks most of
// its share, in integers) over UCB1, and commits answers, positions and the changelog of its state
// in one transaction. The state of a pool, and the arm of every open request, are in stores in
// memory, which are faster than RocksDB here. An answer is about as long as ours.
//
// It does less than the service: a repeated request id is answered anew, a request without a reward
// stays open for ever, what cannot be parsed ends it, and no answer can be audited.

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

public class FairStreams {
  static final int ARMS = 10;
  static final int OF = 2 * ARMS; // every quota is 1 / OF

  /** Ten arms: pulls, rewards seen and their sums. */
  static class Pool {
    long rounds;
    final long[] pulls = new long[ARMS];
    final long[] seen = new long[ARMS];
    final double[] sums = new double[ARMS];

    static Pool read(byte[] bytes) {
      Pool pool = new Pool();
      if (bytes != null) {
        ByteBuffer buffer = ByteBuffer.wrap(bytes);
        pool.rounds = buffer.getLong();
        for (int arm = 0; arm < ARMS; arm++) {
          pool.pulls[arm] = buffer.getLong();
          pool.seen[arm] = buffer.getLong();
          pool.sums[arm] = buffer.getDouble();
        }
      }
      return pool;
    }

    byte[] write() {
      ByteBuffer buffer = ByteBuffer.allocate(8 + ARMS * 24);
      buffer.putLong(rounds);
      for (int arm = 0; arm < ARMS; arm++) {
        buffer.putLong(pulls[arm]).putLong(seen[arm]).putDouble(sums[arm]);
      }
      return buffer.array();
    }

    /** Returns the arm that lacks most of its share, -1 if none lacks any. */
    int owed() {
      int best = -1;
      long most = 0;
      for (int arm = 0; arm < ARMS; arm++) {
        long lacking = rounds - OF * pulls[arm];
        if (lacking > most) {
          most = lacking;
          best = arm;
        }
      }
      return best;
    }

    int learned() {
      double width = 2 * Math.log(Math.max(1, rounds));
      double highest = -1;
      int best = 0;
      for (int arm = 0; arm < ARMS; arm++) {
        if (seen[arm] == 0) {
          return leastPulled();
        }
        double index = sums[arm] / seen[arm] + Math.sqrt(width / seen[arm]);
        if (index > highest) {
          highest = index;
          best = arm;
        }
      }
      return best;
    }

    private int leastPulled() {
      int best = 0;
      for (int arm = 1; arm < ARMS; arm++) {
        if (pulls[arm] < pulls[best]) {
          best = arm;
        }
      }
      return best;
    }
  }

  static class Deciding implements Processor<String, byte[], String, byte[]> {
    private final ObjectMapper json = new ObjectMapper();
    private ProcessorContext<String, byte[]> context;
    private KeyValueStore<String, byte[]> pools;
    private KeyValueStore<String, byte[]> open;

    @Override
    public void init(ProcessorContext<String, byte[]> context) {
      this.context = context;
      pools = context.getStateStore("pools");
      open = context.getStateStore("open");
    }

    @Override
    public void process(Record<String, byte[]> record) {
      try {
        JsonNode event = json.readTree(record.value());
        String name = event.get("pool").asText();
        String request = event.get("request_id").asText();
        Pool pool = Pool.read(pools.get(name));
        if (event.has("value")) {
          byte[] given = open.delete(name + "\n" + request);
          if (given != null) {
            pool.seen[given[0]]++;
            pool.sums[given[0]] += event.get("value").asDouble();
            pools.put(name, pool.write());
          }
          return;
        }
        int arm = pool.owed();
        String reason = arm >= 0 ? "fairness" : "learner";
        if (arm < 0) {
          arm = pool.learned();
        }
        pool.rounds++;
        pool.pulls[arm]++;
        pools.put(name, pool.write());
        open.put(name + "\n" + request, new byte[] {(byte) arm});
        byte[] answer = json.writeValueAsBytes(answer(name, request, arm, pool.rounds, reason));
        context.forward(record.withValue(answer));
      } catch (java.io.IOException error) {
        throw new java.io.UncheckedIOException(error);
      }
    }

    private JsonNode answer(String pool, String request, int arm, long round, String reason) {
      return json.createObjectNode()
          .put("type", "assignment")
          .put("pool", pool)
          .put("request_id", request)
          .put("arm", "arm-" + arm)
          .put("round", round)
          .put("epoch", 1)
          .put("reason", reason)
          .put("propensity", 1.0)
          .put("repeat", false)
          .put("folded", "as long as the field that an audit needs, which this has not");
    }
  }

  public static void main(String[] arguments) throws Exception {
    String prefix = arguments[1];
    Properties settings = new Properties();
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, prefix + "streams");
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
    settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, System.getProperty("threads", "2"));
    settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, System.getProperty("commit", "100"));
    settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
    settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), "120000"); // it is suspended
    settings.put(StreamsConfig.consumerPrefix("max.poll.records"), "4000");
    settings.put(StreamsConfig.producerPrefix("batch.size"), "262144");

    Topology topology = new Topology();
    topology.addSource(
        "inputs",
        Serdes.String().deserializer(),
        Serdes.ByteArray().deserializer(),
        prefix + "requests",
        prefix + "rewards");
    topology.addProcessor("deciding", Deciding::new, "inputs");
    for (String store : new String[] {"pools", "open"}) {
      topology.addStateStore(
          Stores.keyValueStoreBuilder(
              Stores.inMemoryKeyValueStore(store), Serdes.String(), Serdes.ByteArray()),
          "deciding");
    }
    topology.addSink(
        "answers",
        prefix + "assignments",
        Serdes.String().serializer(),
        Serdes.ByteArray().serializer(),
        "deciding");

    KafkaStreams streams = new KafkaStreams(topology, settings);
    CountDownLatch ended = new CountDownLatch(1);
    Runtime.getRuntime().addShutdownHook(new Thread(() -> streams.close(Duration.ofSeconds(10))));
    streams.setUncaughtExceptionHandler(
        error -> {
          error.printStackTrace();
          ended.countDown();
          return org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler
              .StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    streams.start();
    ended.await();
    System.exit(1);
  }
}
